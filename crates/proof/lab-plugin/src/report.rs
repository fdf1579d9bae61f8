//! The report file. It is opened when the plugin is loaded, so a wrong path is reported at once,
//! and rewritten in place, because it may be in memory without a name.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use numapilot_lab_model::Report;

/// The report file; see the module documentation.
#[derive(Debug)]
pub struct ReportFile {
    file: File,
}

impl ReportFile {
    /// Opens the file, which need not exist.
    pub fn open(path: &Path) -> io::Result<Self> {
        let options = File::options().write(true).create(true).truncate(true).open(path);
        Ok(Self { file: options? })
    }

    /// Replaces the contents of the file by this report.
    pub fn write(&self, report: &Report) -> io::Result<()> {
        let text = serde_json::to_vec(report)?;
        self.file.write_all_at(&text, 0)?;
        self.file.set_len(text.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_replaces_the_one_before() {
        let path = std::env::temp_dir().join(format!("lab-report-{}", std::process::id()));
        let file = ReportFile::open(&path).unwrap();
        for machine in ["a long name", "short"] {
            let report = Report { machine: machine.to_owned(), ..Report::default() };
            file.write(&report).unwrap();
            let read: Report = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(read, report);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(ReportFile::open(Path::new("/nonexistent/r")).is_err());
    }
}
