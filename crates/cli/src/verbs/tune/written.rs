//! What was written, for people.

use std::path::PathBuf;

/// What was written.
#[derive(Debug, Default)]
pub struct Written {
    pub profile: Option<PathBuf>,
    pub picture: Option<PathBuf>,
    /// A profile that was there before and is not this search's.
    pub untouched: Option<PathBuf>,
}

impl Written {
    /// Names the files, and says that there is no profile, and why.
    pub fn lines(&self) -> Vec<String> {
        let picture = self.picture.iter().map(|path| format!("Picture: {}", path.display()));
        let mut lines: Vec<String> = picture.collect();
        match (&self.profile, &self.untouched) {
            (Some(path), _) => {
                let path = path.display();
                lines.push(format!("Profile: {path}"));
                lines.push(format!("Use it: numapilot run --profile {path} -- COMMAND"));
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
