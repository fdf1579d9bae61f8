//! Folding long lists of CPUs into lines.

/// `head` and the parts on lines of at most `width` columns (a part is never broken), later
/// lines indented to where the parts begin.
pub fn fold(head: &str, parts: &[String], separator: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat(head.chars().count());
    let mut lines = Vec::new();
    let mut line = head.to_owned();
    let mut fresh = true;
    for (i, part) in parts.iter().enumerate() {
        let last = i + 1 == parts.len();
        let piece = if last { part.clone() } else { format!("{part}{separator}") };
        let columns = line.chars().count() + piece.trim_end().chars().count();
        if !fresh && columns > width {
            lines.push(line.trim_end().to_owned());
            line.clone_from(&indent);
        }
        line += &piece;
        fresh = false;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// The parts of a set such as `0-3,8`.
pub fn parts(set: &impl ToString) -> Vec<String> {
    set.to_string().split(',').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_folded_under_their_beginning() {
        let lines = fold("CPUs ", &parts(&"0,2,4,6,8"), ",", 10);
        assert_eq!(lines, ["CPUs 0,2,", "     4,6,", "     8"]);
        assert_eq!(fold("CPUs ", &parts(&"0-3"), ",", 10), ["CPUs 0-3"]);
        assert_eq!(fold("x ", &parts(&"1000000,1"), ",", 4), ["x 1000000,", "  1"]);
    }
}
