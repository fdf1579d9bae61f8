//! Sums over nodes by SIMD: the additions in different lanes do not wait for each other. There can
//! be a million pages with a few counts each.

const LANES: usize = 8;

/// The sum of the counts.
pub fn sum(counts: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (eights, rest) = counts.as_chunks::<LANES>();
    for eight in eights {
        lanes.iter_mut().zip(eight).for_each(|(lane, count)| *lane += count);
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, count)| *lane += count);
    total(lanes)
}

/// The sum of counts, each times its weight. Both slices have the same length.
pub fn weighted(counts: &[f32], weights: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (eights, rest) = counts.as_chunks::<LANES>();
    let (their, of_rest) = weights.as_chunks::<LANES>();
    for (counts, weights) in eights.iter().zip(their) {
        (0..LANES).for_each(|i| lanes[i] += counts[i] * weights[i]);
    }
    let rest = rest.iter().zip(of_rest).map(|(count, weight)| count * weight);
    lanes.iter_mut().zip(rest).for_each(|(lane, product)| *lane += product);
    total(lanes)
}

fn total([a, b, c, d, e, f, g, h]: [f32; LANES]) -> f32 {
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_out() {
        for nodes in 0..=20u8 {
            // The sum of whole numbers does not depend on their order.
            let counts: Vec<f32> = (1..=nodes).map(f32::from).collect();
            assert_eq!(sum(&counts), counts.iter().sum::<f32>());
            let squares = counts.iter().map(|count| count * count).sum::<f32>();
            assert_eq!(weighted(&counts, &counts), squares);
        }
    }
}
