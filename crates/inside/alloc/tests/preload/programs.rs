//! Real programs with the library preloaded: they print the same as without it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::harness::{installed, shared_library};

/// Runs a command with this input, without or with the library.
fn run(command: &mut Command, input: &str, library: Option<&Path>) -> Output {
    command.env("LC_ALL", "C").env("TZ", "UTC").env_remove("LD_PRELOAD");
    command.envs(library.map(|library| ("LD_PRELOAD", library)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Makes a new command for each run; the outputs must be equal and not empty.
fn same(make: impl Fn() -> Command, input: &str) {
    let alone = run(&mut make(), input, None);
    let errors = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(alone.status.success() && !alone.stdout.is_empty(), "without the library: {errors}");
    for _ in 0..2 {
        let with = run(&mut make(), input, Some(shared_library()));
        let errors = String::from_utf8_lossy(&with.stderr).into_owned();
        assert!(with.status.success(), "{:?} {errors}", with.status);
        let [alone, with] = [&alone, &with].map(|o| String::from_utf8_lossy(&o.stdout));
        assert_eq!(alone, with, "{errors}");
    }
}

fn script(program: &str, arguments: &[&str], input: &str) {
    if installed(program) {
        same(
            || {
                arguments.iter().fold(Command::new(program), |mut c, a| {
                    c.arg(a);
                    c
                })
            },
            input,
        );
    }
}

#[test]
fn python() {
    let program = r#"
import collections, hashlib, json, re, threading, zlib
words = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(30000)]
print(collections.Counter(w[:2] for w in words).most_common(5))
text = json.dumps({w: [i, {"n": w[:8]}] for i, w in enumerate(words)})
print(len(text), zlib.crc32(json.dumps(json.loads(text)).encode()))
print(len(re.findall("a+b", text)), sum(n ** 30 for n in range(2000)) % 10**9)
sums = []
def work(k):
    rows = [list(range(n % 100)) for n in range(20000)]
    sums.append(k + sum(map(len, rows)))
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(sums))
"#;
    script("python3", &["-"], program);
}

#[test]
fn perl() {
    let program = r#"
my %h; my $s = 7;
for my $i (1 .. 200000) { $s = ($s * 1103515245 + 12345) % 2147483648; $h{$s % 5000} .= chr(97 + $s % 26); }
my $all = join "", map { "$_=$h{$_};" } sort keys %h;
print length($all), " ", unpack("%32C*", $all), "\n";
my @sorted = sort { length($h{$a}) <=> length($h{$b}) || $a <=> $b } keys %h;
print "@sorted[0..9]\n"; $all =~ s/(a+)/<$1>/g; print length($all), "\n";
"#;
    script("perl", &["-"], program);
}

#[test]
fn git() {
    if !installed("git") {
        return;
    }
    let script = r#"
set -e
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b HOME=/nonexistent
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
git init -q -b main .
for i in $(seq 12); do seq $((i * 2000)) > "file$((i % 4))"; git add .; git commit -q -m "change $i"; done
git branch side HEAD~3; git checkout -q side; echo x > other; git add .; git commit -q -m side
git checkout -q main; git merge -q --no-edit side; git gc -q; git fsck --full 2>&1
git log --stat --format='%H %s'; git diff HEAD~5 | md5sum; git count-objects -v | grep in-pack
"#;
    same(|| Command::new("sh"), script);
}

#[test]
fn gcc() {
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
        static int cmp(const void *a, const void *b) { return strcmp(a, b); }\n\
        int sort(char (*t)[32], int n) { qsort(t, n, 32, cmp); return n > 1 && t[0][0] < t[1][0]; }\n\
        struct s { int a[10]; double d; };\n\
        double sum(struct s *v, int n) { double r = 0; for (int i = 0; i < n; i++)\n\
        for (int j = 0; j < 10; j++) r += v[i].a[j] * v[i].d; return r; }\n";
    script("gcc", &["-O3", "-x", "c", "-S", "-o", "-", "-"], source);
}

#[test]
fn gxx() {
    let source = "#include <map>\n#include <string>\n#include <vector>\n#include <algorithm>\n\
        int f(std::map<std::string, std::vector<int>> &m) { int n = 0;\n\
        for (auto &[k, v] : m) { std::sort(v.begin(), v.end()); n += v.size() + k.size(); } return n; }\n";
    script("g++", &["-O2", "-std=c++17", "-x", "c++", "-S", "-o", "-", "-"], source);
}

/// The queries for the database engines, which are the same for all as far as their dialects agree.
const QUERIES: &str = "\
    create table t (a integer, b text, c integer);\n\
    insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000)\n\
      select i, 'row ' || (i * 7919 % 30011), i % 97 from n;\n\
    create index by_b on t (b);\n\
    select count(*), sum(a), min(b), max(b) from t;\n\
    select c, count(*), sum(a) from t group by c order by 3 desc, 1 limit 7;\n\
    select x.b, y.b from t x join t y on x.a = y.a * 2 where x.c = 11 order by 1, 2 limit 9;\n\
    delete from t where c < 40;\n\
    update t set b = b || ' changed' where a % 3 = 0;\n\
    select count(*), sum(length(b)) from t;\n\
    select b, a from t order by b desc limit 5;\n";

#[test]
fn sqlite() {
    script("sqlite3", &[":memory:"], QUERIES);
    let checks = format!("{QUERIES}\npragma integrity_check;\nvacuum;\nselect count(*) from t;\n");
    if installed("sqlite3") {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("db");
        same(
            || {
                fs::remove_file(&file).ok();
                let mut command = Command::new("sqlite3");
                command.arg(&file);
                command
            },
            &checks,
        );
    }
}

/// A directory for a server that refuses to run as root; its user owns it.
struct Home {
    directory: TempDir,
    user: u32,
}

impl Home {
    fn new() -> Self {
        const NOBODY: u32 = 65534;
        let directory = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()
            .unwrap();
        let root = std::os::unix::fs::MetadataExt::uid(&directory.path().metadata().unwrap()) == 0;
        let user = if root { NOBODY } else { 0 };
        if root {
            std::os::unix::fs::chown(directory.path(), Some(user), Some(user)).unwrap();
        }
        Self { directory, user }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if self.user != 0 {
            command.uid(self.user).gid(self.user);
        }
        command.current_dir(self.path()).env("HOME", self.path());
        command
    }

    /// A copy of the library that this user may read.
    fn library(&self) -> PathBuf {
        let copy = self.path().join("library.so");
        fs::copy(shared_library(), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        copy
    }
}

/// Debian keeps the server programs of each version in a directory of its own.
fn postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.flatten().map(|v| v.path().join("bin")).find(|b| b.join("initdb").exists())
}

#[test]
fn postgresql() {
    let Some(programs) = postgres() else {
        println!("skipped: no PostgreSQL server in /usr/lib/postgresql");
        return;
    };
    let home = Home::new();
    let library = home.library();
    let answers: Vec<String> = [None, Some(library.as_path())]
        .into_iter()
        .map(|library| {
            let data = home.path().join(if library.is_some() { "with" } else { "without" });
            let mut initdb = home.command(&programs.join("initdb"));
            initdb.args(["--no-sync", "--auth=trust", "--locale=C", "-D"]).arg(&data);
            let output = run(&mut initdb, "", library);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "initdb: {:?} {errors}", output.status);
            // One backend without a server; -j ends a statement at an empty line.
            let mut single = home.command(&programs.join("postgres"));
            single.args(["--single", "-j", "-D"]).arg(&data).arg("postgres");
            let output = run(&mut single, &QUERIES.replace(";\n", ";\n\n"), library);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{:?} {errors}", output.status);
            assert!(!errors.contains("ERROR"), "{errors}");
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    assert!(answers[0].lines().count() > 30, "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn duckdb() {
    // `scripts/setup test` installs it here.
    let modules = concat!(env!("CARGO_TARGET_TMPDIR"), "/../python");
    let import = format!("import sys; sys.path.append('{modules}'); import duckdb");
    if !Command::new("python3").args(["-c", &import]).output().is_ok_and(|o| o.status.success()) {
        println!("skipped: python3 has no module duckdb");
        return;
    }
    let program = format!(
        "{import}\nc = duckdb.connect()\nc.execute('set threads to 4')\n\
         for q in '''{QUERIES}'''.split(';\\n'):\n    \
             r = c.execute(q).fetchall() if q.strip() else []\n    print(r)\n\
         print(c.execute('select i % 1000 k, sum(i), count(distinct i % 77) from range(3000000) r(i) \
         group by k order by k').fetchall()[:20])\n"
    );
    script("python3", &["-"], &program);
}

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn redis() {
    if !installed("redis-server") || !installed("redis-cli") {
        return;
    }
    let commands: String = (0..3000)
        .map(|i| {
            let (key, n) = (i * 7919 % 1009, i * 31 % 97);
            match i % 6 {
                0 => format!("SET s{key} {}\n", "v".repeat(n * 20 + 1)),
                1 => format!("LPUSH l{n} item{i}\n"),
                2 => format!("HSET h{n} f{key} {i}\n"),
                3 => format!("APPEND s{key} {i}\n"),
                4 => format!("ZADD z{} {key} m{i}\n", n % 7),
                _ => format!("DEL s{}\n", key / 2),
            }
        })
        .chain(
            ["LRANGE l5 0 -1\n", "HGETALL h7\n", "ZRANGE z3 0 20 WITHSCORES\n", "DBSIZE\n"]
                .map(String::from),
        )
        .chain(["EVAL \"local t={} for i=1,9999 do t[i]=i..'x' end return #table.concat(t)\" 0\n"
            .to_owned()])
        .collect();
    let answers: Vec<String> = [None, Some(shared_library())]
        .into_iter()
        .map(|library| {
            let directory = tempfile::tempdir().unwrap();
            let socket = directory.path().join("socket");
            let mut server = Command::new("redis-server");
            server
                .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
                .arg(&socket);
            server.current_dir(&directory).stdout(Stdio::null()).env_remove("LD_PRELOAD");
            server.envs(library.map(|library| ("LD_PRELOAD", library)));
            let mut server = Server(server.spawn().unwrap());
            while !socket.exists() {
                assert_eq!(server.0.try_wait().unwrap(), None, "the server ended");
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            let mut client = Command::new("redis-cli");
            let output = run(client.arg("-s").arg(&socket), &commands, None);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(server.0.try_wait().unwrap(), None, "the server ended");
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    assert!(answers[0].lines().count() > 3000);
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn node() {
    let program = "const c = require('crypto'), z = require('zlib');\n\
        const b = []; for (let i = 0; i < 2000; i++) b.push(Buffer.alloc(i * 13 % 9000, 'ab' + i));\n\
        const all = Buffer.concat(b); console.log(all.length, c.createHash('sha256').update(all).digest('hex'));\n\
        console.log(z.inflateSync(z.deflateSync(all)).equals(all));\n\
        const m = new Map(); for (let i = 0; i < 100000; i++) m.set('k' + i % 5003, [i, ...(m.get('k' + i % 5003) || []).slice(0, 9)]);\n\
        console.log(m.size, [...m.values()].reduce((a, v) => a + v[0], 0));\n\
        const { Worker } = require('worker_threads'); let n = 0;\n\
        for (let i = 0; i < 4; i++) new Worker('let a=[];for(let i=0;i<1e5;i++)a.push({i});require(\"worker_threads\").parentPort.postMessage(a.length)', {eval: true})\n\
          .on('message', x => { n += x; }).on('exit', () => { if (n == 4e5) { console.log(n); n = 0; } });\n";
    script("node", &["-"], program);
}

#[test]
fn java() {
    if !installed("java") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("Work.java");
    fs::write(
        &file,
        "import java.nio.*; import java.util.*; import java.util.stream.*; import java.util.zip.*;\n\
         class Work { public static void main(String[] a) throws Exception {\n\
         var sorted = IntStream.range(0, 300000).parallel().mapToObj(i -> \"k\" + i * 7919L % 300007)\n\
           .sorted().collect(Collectors.toList()); System.out.println(sorted.hashCode());\n\
         var buffers = new ArrayList<ByteBuffer>(); long n = 0;\n\
         for (int i = 0; i < 400; i++) { var b = ByteBuffer.allocateDirect(i * 100 + 8); b.putLong(0, i); buffers.add(b); }\n\
         for (var b : buffers) n += b.getLong(0); System.out.println(n);\n\
         var d = new Deflater(); d.setInput(new byte[1 << 20]); d.finish();\n\
         System.out.println(d.deflate(new byte[1 << 16])); } }\n",
    )
    .unwrap();
    same(
        || {
            let mut command = Command::new("java");
            command.arg(&file);
            command
        },
        "",
    );
}

/// The compiler of this library, with many threads.
#[test]
fn rustc() {
    let source = "use std::collections::*; pub fn f(m: &BTreeMap<String, Vec<u32>>) -> usize {\n\
        m.iter().map(|(k, v)| k.len() + v.iter().map(|x| *x as usize).sum::<usize>()).sum() }\n";
    script(
        "rustc",
        &["-O", "--crate-type=lib", "--crate-name=x", "--emit=asm", "-o", "-", "-"],
        source,
    );
}

/// The example: the standard library's own collections over the allocator.
#[test]
fn a_rust_program_with_the_global_allocator() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline", "-p", "numapilot-alloc", "--example", "global"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[50100, 50100, 50100, 50100]\n");
}
