//! A standalone cluster of Spark on this machine, as pip installs it.
//!
//! Source: Spark's documentation, "Spark Standalone Mode" and "Configuration".

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use numapilot_sys::process::PidFd;
use numapilot_test_kit::{wait_until, wait_within};

use crate::tables::TABLES;
use crate::{Application, NUMAPILOT, target};

/// Options of Java that start it with less work; the programs here run for seconds.
const JAVA_OPTIONS: &str = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";
/// How long a daemon may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
const ADDRESS: &str = "127.0.0.1";
const APPLICATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/spark/application.py");
const MASTER: &str = "org.apache.spark.deploy.master.Master";
const WORKER: &str = "org.apache.spark.deploy.worker.Worker";

/// Spark and Java on this machine.
pub struct Spark {
    /// The directory with the Python modules, in which Spark is.
    modules: PathBuf,
    /// Java's home.
    pub java_home: PathBuf,
}

impl Spark {
    /// Finds both, or says what is missing.
    pub fn find() -> Result<Self, String> {
        let modules = target().join("python-spark");
        if !modules.join("pyspark/jars").is_dir() {
            return Err(format!("no pyspark in {}", modules.display()));
        }
        if Command::new("python3").arg("--version").output().is_err() {
            return Err("no python3".to_owned());
        }
        let find = Command::new("sh").args(["-c", "readlink -f \"$(command -v java)\""]).output();
        let java = find.map_err(|error| format!("no sh: {error}"))?.stdout;
        let java = Path::new(OsStr::from_bytes(java.trim_ascii_end()));
        let Some(java_home) = java.parent().and_then(Path::parent) else {
            return Err("no java".to_owned());
        };
        Ok(Self { java_home: java_home.to_owned(), modules })
    }

    /// One of Spark's programs.
    fn program(&self, name: &str) -> PathBuf {
        self.modules.join("pyspark/bin").join(name)
    }
}

/// The running cluster. All its processes are killed when this is dropped.
pub struct Cluster<'a> {
    spark: &'a Spark,
    folder: &'a Path,
    daemons: Vec<Child>,
    url: String,
}

impl<'a> Cluster<'a> {
    /// Starts the master, whose files are in the folder.
    pub fn start(spark: &'a Spark, folder: &'a Path) -> Self {
        fs::create_dir(folder.join("conf")).unwrap();
        let mut cluster = Self { spark, folder, daemons: Vec::new(), url: String::new() };
        let mut master = cluster.command(&spark.program("spark-class"));
        master.args([MASTER, "--host", ADDRESS, "--port", "0", "--webui-port", "0"]);
        cluster.spawn(master, "master.log");
        wait_within(PATIENCE, "Spark's master", || {
            let log = cluster.log("master.log");
            let url = log.lines().find_map(|line| line.split("Starting Spark master at ").nth(1));
            cluster.url = url.unwrap_or_default().trim().to_owned();
            !cluster.url.is_empty()
        });
        cluster
    }

    /// Starts one worker for each of so many nodes under a profile.
    pub fn start_workers(&mut self, profile: &Path, nodes: usize, cores: usize) {
        let mut workers = self.command(Path::new(NUMAPILOT));
        workers.args(["run", "--per-node", "--prefix", "--profile"]).arg(profile).arg("--");
        workers.arg(self.spark.program("spark-class")).args([WORKER, "--host", ADDRESS]);
        workers.args(["--webui-port", "0", "--memory", "2g", "--cores", &cores.to_string()]);
        workers.arg("--work-dir").arg(self.folder.join("work-{node}")).arg(&self.url);
        self.spawn(workers, "workers.log");
        wait_within(PATIENCE, "Spark's workers", || {
            self.log("master.log").matches("Registering worker").count() == nodes
        });
    }

    /// Submits the application by `numapilot run`. `more` are options of spark-submit.
    pub fn submit(&self, application: &Application<'_>, more: &[&str]) -> Output {
        let Application { tables, executors, profile, attest } = application;
        let executors = executors.to_string();
        let mut command = self.command(Path::new("timeout"));
        command.args(["-k", "10", "400", NUMAPILOT, "run", "--strict", "--via", "spark"]);
        command.args(["--via-count", &executors, "--profile"]).arg(profile);
        command.arg("--attest").arg(attest).arg("--");
        command.arg(self.spark.program("spark-submit")).args(["--master", &self.url]);
        command.args(["--driver-java-options", JAVA_OPTIONS]);
        for setting in [
            &format!("spark.executor.extraJavaOptions={JAVA_OPTIONS}"),
            "spark.executor.cores=1",
            &format!("spark.cores.max={executors}"),
            "spark.executor.memory=512m",
            &format!("spark.driver.host={ADDRESS}"),
            "spark.ui.enabled=false",
            "spark.ui.showConsoleProgress=false",
            // The query begins when all executors are there.
            "spark.scheduler.minRegisteredResourcesRatio=1",
            "spark.scheduler.maxRegisteredResourcesWaitingTime=300s",
            "spark.sql.shuffle.partitions=2",
            // Less work for small tables.
            "spark.sql.adaptive.enabled=false",
            "spark.sql.codegen.wholeStage=false",
            "spark.sql.codegen.factoryMode=NO_CODEGEN",
        ] {
            command.args(["--conf", setting]);
        }
        command.args(more).arg(APPLICATION).arg(&tables.directory).arg(&tables.sql).args(TABLES);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder)
            .env("JAVA_HOME", &self.spark.java_home)
            .env("PYTHONPATH", &self.spark.modules)
            .env("SPARK_HOME", self.spark.modules.join("pyspark"))
            .env("SPARK_CONF_DIR", self.folder.join("conf"))
            .env("SPARK_LOCAL_DIRS", self.folder.join("local"))
            .env("SPARK_LOCAL_IP", ADDRESS)
            .env("SPARK_LAUNCHER_OPTS", JAVA_OPTIONS)
            // Its server for REST listens at a fixed port.
            .env(
                "SPARK_DAEMON_JAVA_OPTS",
                format!("{JAVA_OPTIONS} -Dspark.master.rest.enabled=false"),
            );
        command
    }

    fn spawn(&mut self, mut command: Command, log: &str) {
        let log = File::create(self.folder.join(log)).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.push(command.spawn().unwrap());
    }

    /// What a daemon has printed.
    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap()
    }

    /// Ends the daemons, the workers first, and waits for them and all that they have started.
    pub fn stop(mut self) {
        for mut daemon in self.daemons.drain(..).rev() {
            let process = PidFd::open(daemon.id().cast_signed()).unwrap();
            process.signal(libc::SIGTERM).unwrap();
            daemon.wait().unwrap();
        }
        wait_until("Spark's processes end", || self.processes().is_empty());
    }

    /// The processes of the cluster and of its applications: they inherit the environment of the
    /// daemons, which names the folder.
    fn processes(&self) -> Vec<PidFd> {
        let folder = self.folder.as_os_str().as_bytes();
        let is_ours = |process: i32| {
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment.windows(folder.len()).any(|part| part == folder)
        };
        let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let processes = names.filter_map(|name| name.to_str()?.parse::<i32>().ok());
        // The environment is read when the process can no longer be another one.
        let opened = processes.filter_map(|process| Some((process, PidFd::open(process).ok()?)));
        opened.filter(|(process, _)| is_ours(*process)).map(|(_, opened)| opened).collect()
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        // A worker that still lives starts other executors in place of those that were killed.
        for _ in 0..500 {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            for process in left {
                let _ = process.signal(libc::SIGKILL);
            }
            sleep(Duration::from_millis(20));
        }
        for daemon in &mut self.daemons {
            let _ = daemon.wait();
        }
    }
}
