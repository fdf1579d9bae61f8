//! Describes the written files for people.

use std::path::PathBuf;

/// The files that were written.
#[derive(Debug, Default)]
pub struct Written {
    pub profile: Option<PathBuf>,
    pub picture: Option<PathBuf>,
    /// Tables of the plans.
    pub tables: Vec<PathBuf>,
    /// The file of all runs.
    pub runs: Option<PathBuf>,
    /// A profile that existed before and does not come from this search.
    pub untouched: Option<PathBuf>,
    /// The server that was measured, as the user wrote it.
    pub server: Option<String>,
}

impl Written {
    /// Lines that name the files, or explain why there is no profile.
    pub fn lines(&self) -> Vec<String> {
        let picture = self.picture.iter().map(|path| format!("Picture: {}", path.display()));
        let tables = self.tables.iter().map(|path| format!("Table: {}", path.display()));
        let runs = self.runs.iter().map(|path| format!("Runs: {}", path.display()));
        let mut lines: Vec<String> = picture.chain(tables).chain(runs).collect();
        match (&self.profile, &self.untouched) {
            (Some(path), _) => {
                let path = path.display();
                lines.push(format!("Profile: {path}"));
                let command = self.server.as_deref().unwrap_or("COMMAND");
                lines.push(format!("Use it: numapilot run --profile {path} -- {command}"));
            }
            (None, untouched) => {
                let mut line =
                    "No profile written: no plan is shown to beat the default".to_owned();
                if let Some(path) = untouched {
                    line += &format!("; {} is left as it was", path.display());
                }
                lines.push(line + ".");
            }
        }
        lines
    }
}
