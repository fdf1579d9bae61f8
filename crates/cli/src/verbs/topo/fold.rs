//! Folding long lists of CPUs into lines.

/// `head` and the list on lines of at most `width` columns, broken after commas and bars
/// only, later lines indented to where the list begins.
pub fn fold(head: &str, list: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat(head.chars().count());
    let mut lines = Vec::new();
    let mut line = head.to_owned();
    let mut empty = true;
    for part in list.split_inclusive([',', '|']) {
        let columns = line.chars().count() + part.trim_end().chars().count();
        if !empty && columns > width {
            lines.push(line);
            line = indent.clone() + part.trim_start();
        } else {
            line += part;
        }
        empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_folded_under_their_beginning() {
        assert_eq!(fold("CPUs ", "0,2,4,6,8", 10), ["CPUs 0,2,", "     4,6,", "     8"]);
        assert_eq!(fold("by ", "0-3 | 4-7 | 8-9", 13), ["by 0-3 | 4-7", "   | 8-9"]);
        assert_eq!(fold("CPUs ", "0-3", 10), ["CPUs 0-3"]);
        assert_eq!(fold("x ", "1000000,1", 4), ["x 1000000,", "  1"]);
    }
}
