//! Arguments of `export-metrics`.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;

use crate::period::AsPerf;
use crate::verbs::selection::Selection;

/// Arguments of `export-metrics`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub selection: Selection,
    /// Serve http://ADDR:PORT/metrics; port 0 takes a free port, and :PORT is that of every IPv4
    /// address.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9899", value_parser = address,
          conflicts_with_all = ["textfile", "once"])]
    pub listen: SocketAddr,
    /// Write DIR/NAME.prom for the textfile collector of the node exporter instead of serving.
    #[arg(long, value_name = "DIR")]
    pub textfile: Option<PathBuf>,
    /// Name of the file of --textfile, without .prom; each exporter needs one of its own.
    #[arg(long, value_name = "NAME", default_value = "numapilot", requires = "textfile",
          value_parser = name)]
    pub name: String,
    /// Leave out the metrics of the machine: for the second of two exporters whose metrics meet, as
    /// in one directory of --textfile.
    #[arg(long)]
    pub targets_only: bool,
    /// Collect for one interval, print the metrics (or write the file of --textfile) and exit.
    #[arg(long)]
    pub once: bool,
    /// Time between two collections.
    #[arg(short = 'd', long, value_name = "TIME", default_value = "10s",
          value_parser = units::duration)]
    pub interval: Duration,
    #[command(flatten)]
    pub as_perf: AsPerf,
}

/// Parses an address or host name with a port. A port alone, as other exporters take it, means every
/// IPv4 address of this machine: some have no IPv6, and some keep the two apart.
fn address(text: &str) -> Result<SocketAddr, String> {
    let digits = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.strip_prefix(':').filter(digits).and_then(|port| port.parse().ok());
    if let Some(port) = port {
        return Ok(SocketAddr::new(IpAddr::from([0; 4]), port));
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Err(format!("give a port as well, as in {}", SocketAddr::new(address, 9899)));
    }
    if !text.is_empty() && !text.contains(':') && text.parse::<u64>().is_err() {
        return Err(format!("give a port as well, as in {text}:9899"));
    }
    let remedy = "give an address of this machine and a port, as in 127.0.0.1:9899";
    match text.to_socket_addrs().map(|mut addresses| addresses.next()) {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(remedy.to_owned()),
        Err(error) => Err(format!("{error}; {remedy}")),
    }
}

/// Parses the name of a file. The node exporter reads no hidden file.
fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('.') || text.contains(['/', '\0', '\n']) {
        return Err("give the name of a file without its directory and .prom".to_owned());
    }
    Ok(text.strip_suffix(".prom").unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port() {
        let parsed = |text| address(text).map(|address| address.to_string());
        assert_eq!(parsed("127.0.0.1:1").as_deref(), Ok("127.0.0.1:1"));
        assert_eq!(parsed(":9899").as_deref(), Ok("0.0.0.0:9899"));
        assert_eq!(address("localhost:2").map(|a| (a.ip().is_loopback(), a.port())), Ok((true, 2)));
        for (wrong, remedy) in [
            ("127.0.0.1", "as in 127.0.0.1:9899"),
            ("::1", "as in [::1]:9899"),
            ("[::1]", "as in [::1]:9899"),
            ("localhost", "as in localhost:9899"),
            (":+80", "as in 127.0.0.1:9899"),
            ("9899", "as in 127.0.0.1:9899"),
            ("localhost:x", "as in 127.0.0.1:9899"),
            (":", "as in 127.0.0.1:9899"),
        ] {
            let error = address(wrong).unwrap_err();
            assert!(error.ends_with(remedy), "{wrong}: {error}");
        }
    }

    #[test]
    fn names_are_those_of_files_in_the_directory() {
        assert_eq!(name("db").as_deref(), Ok("db"));
        assert_eq!(name("db.prom").as_deref(), Ok("db"));
        for wrong in ["", ".db", "../db", "a/b", ".prom"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
