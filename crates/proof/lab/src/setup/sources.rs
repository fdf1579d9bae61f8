//! The archive that this machine uses, with the suites that the lab needs.
//!
//! Source: sources.list(5). The entry for the release is copied with its address, options and keys;
//! only suites and components change.

use std::fs;
use std::path::Path;

/// The text of a sources file, and the file extension, which tells apt the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// The text for apt.
    pub text: String,
    /// `list` or `sources`.
    pub ending: &'static str,
}

/// Derives the sources from those of a machine, given its `etc/apt`.
pub fn derive(apt: &Path, codename: &str, suites: &[String]) -> Option<Sources> {
    let parts = fs::read_dir(apt.join("sources.list.d")).ok().into_iter().flatten();
    let mut files: Vec<_> = parts.filter_map(Result::ok).map(|entry| entry.path()).collect();
    files.sort();
    files.insert(0, apt.join("sources.list"));
    files.iter().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        match file.extension()?.to_str()? {
            "list" => one_line(&text, codename, suites),
            "sources" => paragraphs(&text, codename, suites),
            _ => None,
        }
    })
}

/// `deb [options] address suite components`.
fn one_line(text: &str, codename: &str, suites: &[String]) -> Option<Sources> {
    let (before, _) = text.lines().find_map(|line| {
        let line = line.split('#').next()?.trim();
        let rest = line.strip_prefix("deb")?;
        if !rest.starts_with([' ', '\t', '[']) {
            return None;
        }
        // The options may contain spaces; the address comes after them.
        let address = rest.rfind(']').map_or(0, |end| end + 1);
        let mut words = rest[address..].split_whitespace();
        let uri = words.next()?;
        (words.next()? == codename && words.any(|component| component == "main"))
            .then(|| (format!("deb{} {uri}", &rest[..address]), uri))
    })?;
    let text = suites.iter().map(|suite| format!("{before} {suite} main\n")).collect();
    Some(Sources { text, ending: "list" })
}

/// Paragraphs of fields.
fn paragraphs(text: &str, codename: &str, suites: &[String]) -> Option<Sources> {
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let paragraph = text.split(|line| line.trim().is_empty()).find(|paragraph| {
        let has = |name: &str, value: &str| {
            let mut fields = paragraph.iter().filter_map(|line| line.split_once(':'));
            fields.any(|(field, values)| {
                field.eq_ignore_ascii_case(name) && values.split_whitespace().any(|v| v == value)
            })
        };
        has("Types", "deb")
            && has("Suites", codename)
            && has("Components", "main")
            && !has("Enabled", "no")
    })?;
    let mut out = String::new();
    for line in paragraph {
        let field = line.split_once(':').map_or("", |(field, _)| field).to_ascii_lowercase();
        match field.as_str() {
            "types" => out += "Types: deb\n",
            "suites" => out += &format!("Suites: {}\n", suites.join(" ")),
            "components" => out += "Components: main\n",
            _ => {
                out += line;
                out.push('\n');
            }
        }
    }
    Some(Sources { text: out, ending: "sources" })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn suites() -> [String; 2] {
        ["bookworm".to_owned(), "bookworm-backports".to_owned()]
    }

    #[test]
    fn lines_keep_their_options() {
        let text = "# comment\ndeb-src http://mirror.example/debian bookworm main\n\
                    deb http://security.example/debian-security bookworm-security main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib # x\n";
        assert_snapshot!(one_line(text, "bookworm", &suites()).unwrap().text, @r"
        deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main
        deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm-backports main
        ");
        assert_eq!(one_line("deb http://x.example/ trixie main", "bookworm", &suites()), None);
    }

    #[test]
    fn paragraphs_keep_their_keys() {
        let text = "Types: deb\nURIs: http://security.example/\nSuites: bookworm-security\n\
                    Components: main\n\nTypes: deb deb-src\n# old\nURIs: http://mirror.example/debian\n\
                    Suites: bookworm bookworm-updates\nComponents: main contrib\n\
                    Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n -----END\n";
        assert_snapshot!(paragraphs(text, "bookworm", &suites()).unwrap().text, @r"
        Types: deb
        URIs: http://mirror.example/debian
        Suites: bookworm bookworm-backports
        Components: main
        Signed-By:
         -----BEGIN PGP PUBLIC KEY BLOCK-----
         .
         -----END
        ");
        let disabled = "Enabled: no\nTypes: deb\nURIs: x\nSuites: bookworm\nComponents: main\n";
        assert_eq!(paragraphs(disabled, "bookworm", &suites()), None);
    }

    #[test]
    fn the_entry_is_found_in_any_file() {
        let apt = tempfile::tempdir().unwrap();
        let parts = apt.path().join("sources.list.d");
        fs::create_dir(&parts).unwrap();
        assert_eq!(derive(apt.path(), "bookworm", &suites()), None);
        fs::write(apt.path().join("sources.list"), "\n").unwrap();
        fs::write(parts.join("a.list"), "deb http://other.example/ stable main\n").unwrap();
        fs::write(parts.join("b.list"), "deb http://mirror.example/ bookworm main\n").unwrap();
        let found = derive(apt.path(), "bookworm", &suites()).unwrap();
        assert!(found.text.starts_with("deb http://mirror.example/ bookworm main\n"), "{found:?}");
    }
}
