//! Folds long lists of CPUs into lines.

/// `head` and the list on lines of at most `width` columns, with later lines indented to the start
/// of the list. Lines are broken after bars; after a comma only if an item is too long for a line.
pub fn fold(head: &str, list: &str, width: usize) -> Vec<String> {
    let indent = head.chars().count();
    let mut lines = vec![head.to_owned()];
    let mut empty = true;
    for group in list.split_inclusive('|') {
        let breakable = indent + group.trim().chars().count() > width;
        let parts = if breakable { group.split_inclusive(',').collect() } else { vec![group] };
        for part in parts {
            let used = lines.last().map_or(0, |line| line.chars().count());
            if !empty && used + part.trim_end().chars().count() > width {
                lines.push(" ".repeat(indent) + part.trim_start());
            } else if let Some(line) = lines.last_mut() {
                line.push_str(part);
            }
            empty = false;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_folded_under_their_beginning() {
        assert_eq!(fold("CPUs ", "0,2,4,6,8", 10), ["CPUs 0,2,", "     4,6,8"]);
        assert_eq!(fold("by ", "0-3 | 4-7 | 8-9", 13), ["by 0-3 |", "   4-7 | 8-9"]);
        assert_eq!(fold("by ", "0,4 | 1,5 | 2,6", 12), ["by 0,4 |", "   1,5 | 2,6"]);
        assert_eq!(fold("CPUs ", "0-3", 10), ["CPUs 0-3"]);
        assert_eq!(fold("x ", "1000000,1", 4), ["x 1000000,", "  1"]);
    }
}
