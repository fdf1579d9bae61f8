//! The paths in a file: imports, re-exports, and those in code.

use crate::tokens::{is_name, tokens, without_tests};

/// The segments of a path; an import of everything ends with `*`.
pub type Path<'t> = Vec<&'t str>;

/// The paths in a file, without its unit tests.
#[derive(Debug, Default)]
pub struct Paths<'t> {
    /// Private `use` declarations: the name in this file, and the path.
    pub imports: Vec<(&'t str, Path<'t>)>,
    /// `pub use` declarations, likewise.
    pub exports: Vec<(&'t str, Path<'t>)>,
    /// Paths with at least two segments in code.
    pub code: Vec<Path<'t>>,
}

impl<'t> Paths<'t> {
    /// Reads the paths from a file's text.
    #[must_use]
    pub fn of(text: &'t str) -> Self {
        let all = tokens(text);
        let tokens = without_tests(&all);
        let mut paths = Self::default();
        let mut at = 0;
        while at < tokens.len() {
            let is_use = tokens[at] == "use" && tokens.get(at + 1) != Some(&"<");
            if is_use {
                let end =
                    at + tokens[at..].iter().position(|t| *t == ";").unwrap_or(tokens.len() - at);
                let is_public = tokens[..at].last().is_some_and(|t| *t == "pub" || *t == ")");
                let list = if is_public { &mut paths.exports } else { &mut paths.imports };
                expand(&[], &tokens[at + 1..end], list);
                at = end;
            } else if is_name(tokens[at]) {
                let mut path = vec![tokens[at]];
                while tokens.get(at + 1) == Some(&"::")
                    && tokens.get(at + 2).is_some_and(|token| is_name(token))
                {
                    path.push(tokens[at + 2]);
                    at += 2;
                }
                if path.len() > 1 {
                    paths.code.push(path);
                }
            }
            at += 1;
        }
        paths
    }
}

/// Adds the paths of a tree of imports.
fn expand<'t>(prefix: &[&'t str], tree: &[&'t str], list: &mut Vec<(&'t str, Path<'t>)>) {
    let mut path = prefix.to_vec();
    let mut rest = tree;
    while let [first, after @ ..] = rest {
        match *first {
            "{" => {
                members(after).for_each(|member| expand(&path, member, list));
                return;
            }
            "as" => break,
            "::" => {}
            segment => path.push(segment),
        }
        rest = after;
    }
    if path.last() == Some(&"self") && path.len() > 1 {
        path.pop();
    }
    let name = if let ["as", name] = rest { Some(name) } else { path.last() };
    if let Some(name) = name {
        list.push((name, path.clone()));
    }
}

/// The members of a list in braces, whose opening brace is left out.
fn members<'a, 't>(list: &'a [&'t str]) -> impl Iterator<Item = &'a [&'t str]> {
    let mut depth = 0;
    let end = list.iter().position(|token| {
        depth += i32::from(*token == "{") - i32::from(*token == "}");
        depth < 0
    });
    let mut depth = 0;
    let members = list[..end.unwrap_or(list.len())].split(move |token| {
        depth += i32::from(*token == "{") - i32::from(*token == "}");
        depth == 0 && *token == ","
    });
    members.filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(paths: &[(&str, Path<'_>)]) -> Vec<String> {
        paths.iter().map(|(name, path)| format!("{name}={}", path.join("::"))).collect()
    }

    #[test]
    fn trees_of_imports_are_expanded() {
        let paths = Paths::of("use crate::{a, b::{self, C as D, e::*}};\npub(crate) use super::F;");
        assert_eq!(
            joined(&paths.imports),
            ["a=crate::a", "b=crate::b", "D=crate::b::C", "*=crate::b::e::*"]
        );
        assert_eq!(joined(&paths.exports), ["F=super::F"]);
        assert!(paths.code.is_empty());
    }

    #[test]
    fn paths_in_code_are_found() {
        let paths = Paths::of("fn f() -> impl Fn() + use<> { crate::a::b(c::D::new(e)); }");
        assert_eq!(paths.code, [vec!["crate", "a", "b"], vec!["c", "D", "new"]]);
        assert!(paths.imports.is_empty());
    }
}
