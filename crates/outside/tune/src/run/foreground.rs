//! Names the option that keeps a server in the foreground: numapilot watches, measures and stops the
//! process that it has started, and a server that daemonises ends that process.

use std::ffi::OsString;
use std::path::Path;

/// Servers that daemonise by an option, by their configuration or by default, with the remedy.
const SERVERS: [(&str, &str); 14] = [
    ("apache2", "start it with -DFOREGROUND"),
    ("haproxy", "start it with -db"),
    ("httpd", "start it with -DFOREGROUND"),
    ("mariadbd", "start it without --daemonize"),
    ("memcached", "start it without -d"),
    ("mongod", "start it without --fork"),
    ("mysqld", "start it without --daemonize (-D)"),
    ("nginx", "start it with -g 'daemon off;'"),
    ("pg_ctl", "start the server itself: postgres -D DIR"),
    ("pg_ctlcluster", "start the server itself: postgres -D DIR"),
    ("php-fpm", "start it with --nodaemonize"),
    ("redis-server", "start it with --daemonize no"),
    ("slapd", "start it with -d 0"),
    ("valkey-server", "start it with --daemonize no"),
];
/// The remedy for other servers.
const OTHERS: &str =
    "give it the option that keeps it in the foreground (often --foreground or --nodaemon)";

/// The remedy for a server that daemonises.
pub fn remedy(command: &[OsString]) -> &'static str {
    // The server may stand behind a program that sets its user or its limits.
    let names = command.iter().filter_map(|word| Path::new(word).file_name()?.to_str());
    let mut known =
        names.filter_map(|name| SERVERS.iter().find(|server| name == server.0).map(|s| s.1));
    known.next().unwrap_or(OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_that_of_the_server() {
        let of = |line: &str| remedy(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(of("redis-server --daemonize yes").contains("--daemonize no"));
        assert!(
            of("setpriv --reuid=postgres -- /usr/lib/bin/pg_ctl start").contains("postgres -D")
        );
        assert_eq!(of("./server"), OTHERS);
    }
}
