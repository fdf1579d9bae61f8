//! Launchers whose template numapilot knows: `slurm`, `docker:IMAGE`, `spark`, `dask`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::wrapper::{WrapperError, java_home, python};
use crate::allocators::own_directories;

/// A launcher that is known by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// `slurm[:OPTIONS]`: the tasks of srun.
    Slurm(Vec<String>),
    /// `docker:[OPTIONS ]IMAGE`: a container of Docker, Podman or nerdctl, which have the same options.
    Container(&'static str, Vec<String>),
    /// The executors of Spark.
    Spark,
    /// The workers of Dask.
    Dask,
}

/// Why a name cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NameError {
    /// An image is missing.
    NoImage(&'static str),
    /// The name takes no options.
    NoOptions(&'static str),
}

/// What `numapilot run` on the other side needs.
pub(super) struct Far<'a> {
    /// The words of `numapilot run` up to `--`.
    pub run: &'a [OsString],
    /// The file of numapilot.
    pub program: &'a Path,
    /// The directory of the run; there is none if nothing is to be run.
    pub directory: Option<&'a Path>,
}

const CONTAINERS: [&str; 3] = ["docker", "podman", "nerdctl"];
/// The programs that start an application of Spark.
const SPARK: [&str; 4] = ["spark-submit", "spark-shell", "spark-sql", "pyspark"];
/// The schedulers that dask-jobqueue knows.
const JOB_QUEUES: [&str; 7] = ["HTCONDOR", "LSF", "MOAB", "OAR", "PBS", "SGE", "SLURM"];

impl Named {
    /// The launcher with this name; `words` are those after a colon, if there is one.
    pub(super) fn find(name: &str, words: Option<Vec<String>>) -> Option<Result<Self, NameError>> {
        if let Some(program) = CONTAINERS.iter().find(|known| **known == name) {
            let words = words.unwrap_or_default();
            // The last word is the image.
            return Some(match words.last() {
                Some(image) if !image.starts_with('-') => Ok(Self::Container(program, words)),
                _ => Err(NameError::NoImage(program)),
            });
        }
        let alone = |named, name| match words {
            None => Ok(named),
            Some(_) => Err(NameError::NoOptions(name)),
        };
        Some(match name {
            "slurm" => Ok(Self::Slurm(words.unwrap_or_default())),
            "spark" => alone(Self::Spark, "spark"),
            "dask" => alone(Self::Dask, "dask"),
            _ => return None,
        })
    }

    /// How many far ends there are, if there cannot be another number.
    pub(super) fn count(&self) -> Option<u32> {
        matches!(self, Self::Container(..)).then_some(1)
    }

    /// Whether programs on the other side may still run when the launcher has ended.
    pub(super) fn ends_early(&self) -> bool {
        matches!(self, Self::Spark | Self::Dask)
    }

    /// The command of the launcher.
    pub(super) fn command(
        &self,
        far: &Far<'_>,
        command: &[OsString],
    ) -> Result<Vec<OsString>, WrapperError> {
        let before: Vec<OsString> = match self {
            Self::Slurm(options) => std::iter::once("srun")
                .chain(options.iter().map(String::as_str))
                .map(Into::into)
                .collect(),
            Self::Container(program, words) => container(program, words, far),
            Self::Spark => return spark(far, command),
            Self::Dask => return dask(far, command),
        };
        Ok([&before, far.run, command].concat())
    }
}

/// The command line of a container, which has numapilot and its libraries under their paths here. The
/// container's first process is one that reaps others, and numapilot may set memory policies.
fn container(program: &str, words: &[String], far: &Far<'_>) -> Vec<OsString> {
    let fixed = ["run", "--rm", "--init", "--cap-add=SYS_NICE", "--entrypoint="];
    let mut all: Vec<OsString> =
        std::iter::once(program).chain(fixed).map(OsString::from).collect();
    let libraries = own_directories().into_iter().flat_map(|directory| {
        ["libnumapilot_bind.so", "libnumapilot_alloc.so"].map(|name| directory.join(name))
    });
    let mut files: Vec<PathBuf> = Vec::new();
    for file in std::iter::once(far.program.to_owned()).chain(libraries) {
        if file.is_file() && !files.contains(&file) {
            files.push(file);
        }
    }
    all.extend(files.iter().map(|file| mount(file, ",readonly")));
    all.extend(far.directory.map(|directory| mount(directory, "")));
    all.extend(words.iter().map(OsString::from));
    all
}

/// The option that shows a path in the container; its value is a line of comma-separated fields.
fn mount(path: &Path, more: &str) -> OsString {
    let field = |name: &str| {
        let text = format!("{name}={}", path.display());
        if text.contains([',', '"', '\n']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    };
    format!("--mount=type=bind,{},{}{more}", field("source"), field("target")).into()
}

/// An application of Spark whose executors get a Java home that starts them by `numapilot run`.
fn spark(far: &Far<'_>, command: &[OsString]) -> Result<Vec<OsString>, WrapperError> {
    let directory = far.directory.ok_or(WrapperError::NoDirectory { launcher: "spark" })?;
    let name = file_name(command);
    if !SPARK.contains(&&*name) {
        return Err(WrapperError::OtherCommand {
            launcher: "spark",
            expected: SPARK.join(", "),
            command: name,
            remedy: "give the command that submits the application",
        });
    }
    let mut option = OsString::from("spark.executorEnv.JAVA_HOME=");
    option.push(java_home(directory, far.run)?);
    let options: [OsString; 2] = ["--conf".into(), option];
    let (first, rest) = command.split_at(1);
    Ok([first, &options, rest].concat())
}

/// `dask ssh`, or a program whose job queues get a Python that starts workers by `numapilot run`.
fn dask(far: &Far<'_>, command: &[OsString]) -> Result<Vec<OsString>, WrapperError> {
    let directory = far.directory.ok_or(WrapperError::NoDirectory { launcher: "dask" })?;
    let python = python(directory, far.run)?;
    let at = match &*file_name(command) {
        "dask-ssh" => Some(1),
        "dask" if command.get(1).is_some_and(|word| word == "ssh") => Some(2),
        _ => None,
    };
    if let Some(at) = at {
        let options: [OsString; 2] = ["--remote-python".into(), python.into()];
        let (first, rest) = command.split_at(at);
        return Ok([first, &options, rest].concat());
    }
    let variables = JOB_QUEUES.map(|queue| {
        let mut word = OsString::from(format!("DASK_JOBQUEUE__{queue}__PYTHON="));
        word.push(&python);
        word
    });
    Ok([&["env".into()], &variables[..], command].concat())
}

fn file_name(command: &[OsString]) -> String {
    let name = command.first().and_then(|word| Path::new(word).file_name());
    name.unwrap_or(OsStr::new("")).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &[&str]) -> Vec<OsString> {
        command.iter().map(OsString::from).collect()
    }

    fn expanded(named: &Named, directory: Option<&Path>, command: &[&str]) -> Vec<String> {
        let run = words(&["/bin/true", "run", "--"]);
        let far = Far { run: &run, program: Path::new("/bin/true"), directory };
        let command = named.command(&far, &words(command)).unwrap();
        command.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn names_take_what_they_need() {
        let find = |name, words: Option<&[&str]>| {
            Named::find(name, words.map(|words| words.iter().map(ToString::to_string).collect()))
        };
        assert_eq!(find("slurm", None), Some(Ok(Named::Slurm(Vec::new()))));
        assert_eq!(find("docker", None), Some(Err(NameError::NoImage("docker"))));
        assert_eq!(find("docker", Some(&["--net=host"])), Some(Err(NameError::NoImage("docker"))));
        let podman = find("podman", Some(&["a:1"])).unwrap().unwrap();
        assert_eq!(podman.count(), Some(1));
        assert_eq!(find("spark", Some(&["x"])), Some(Err(NameError::NoOptions("spark"))));
        assert!(find("dask", None).unwrap().unwrap().ends_early());
        assert_eq!(find("srun", None), None);
    }

    #[test]
    fn srun_gets_the_options() {
        let named = Named::Slurm(vec!["-N2".to_owned()]);
        assert_eq!(
            expanded(&named, None, &["app", "-x"]),
            ["srun", "-N2", "/bin/true", "run", "--", "app", "-x"]
        );
    }

    #[test]
    fn a_container_sees_numapilot_and_the_directory() {
        let named = Named::Container("docker", vec!["--net=host".to_owned(), "image".to_owned()]);
        let command = expanded(&named, Some(Path::new("/a,b")), &["app"]);
        let at = command.iter().position(|word| word == "--net=host").unwrap();
        assert_eq!(command[at..], ["--net=host", "image", "/bin/true", "run", "--", "app"]);
        let program = "--mount=type=bind,source=/bin/true,target=/bin/true,readonly";
        assert!(command[..at].iter().any(|word| word == program), "{command:?}");
        let directory = "--mount=type=bind,\"source=/a,b\",\"target=/a,b\"";
        assert_eq!(command[at - 1], directory);
    }

    #[test]
    fn interpreters_are_named_to_the_launcher() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("python").display().to_string();
        let command = expanded(&Named::Dask, Some(folder.path()), &["dask", "ssh", "a", "b"]);
        assert_eq!(command, ["dask", "ssh", "--remote-python", &python, "a", "b"]);
        std::fs::remove_file(&python).unwrap();
        let command = expanded(&Named::Dask, Some(folder.path()), &["python3", "x.py"]);
        assert!(command.contains(&format!("DASK_JOBQUEUE__SLURM__PYTHON={python}")), "{command:?}");
        assert_eq!(command[command.len() - 2..], ["python3", "x.py"]);
        let far = Far { run: &[], program: Path::new("/x"), directory: Some(folder.path()) };
        let error = Named::Spark.command(&far, &words(&["java", "X"])).unwrap_err().to_string();
        assert!(error.starts_with("--via spark starts spark-submit, "), "{error}");
        let far = Far { directory: None, ..far };
        let error = Named::Spark.command(&far, &words(&["spark-submit"])).unwrap_err();
        assert!(error.to_string().contains("profile export"), "{error}");
    }
}
