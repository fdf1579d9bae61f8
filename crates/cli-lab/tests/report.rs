//! `numapilot study report`: the page, the files next to it, and its appearance in a browser.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;
use std::path::Path;
use std::process::Command as Process;

use assert_cmd::Command;
use predicates::str::contains;
use tempfile::TempDir;

fn numapilot(directory: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(directory).args(arguments).assert()
}

/// Results of four experiments: bars with a level that cannot run, lines, points, and a heat map.
fn results() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let experiment = |id: &str, command: &str, factors: &str, metric: &str, claims: &str| {
        let text = format!(
            "id = '{id}'\ntitle = 'Slow & <fast>'\npaper = 'none'\nplace = 'Table 1'\n\
             says = 'slow takes twice as long'\ndiffers = 'everything'\nmachine = 'host'\n\
             command = '''{command}'''\npicture = 'm'\n{factors}\n\
             [scale.smoke]\nrepetitions = 3\n[metrics.m]\nunit = 's'\n{metric}\n{claims}"
        );
        fs::write(directory.path().join(format!("{id}.toml")), text).unwrap();
    };
    let ratio = "[[claims]]\ntext = 'slow over fast'\npaper = 2.0\nband = [1.5, 2.5]\nabove = 1.0\n\
                 of = { metric = 'm', at = { kind = 'slow' }, over = { kind = 'fast' } }\n";
    let gone = "[[claims]]\ntext = 'gone'\npaper = 2.0\nabove = 1.0\nof = { metric = 'm', at = { kind = 'gone' } }\n";
    let kinds =
        "[factors]\nkind = [['fast', 'echo 1.'], ['slow', 'echo 2.'], ['gone', 'no-such-program']]";
    let number = "field = 'v'";
    let command = "x=$({kind}) || exit; echo '{\"v\": '\"$x\"'0}'";
    experiment("T1", command, kinds, number, &format!("{ratio}{gone}"));
    let threads = "along = 'threads'\n[factors]\nthreads = ['1', '2', '16']\nkind = ['1', '3']";
    let shown = "[[claims]]\ntext = 'it grows'\n";
    experiment("T2", "echo '{\"v\": {threads}{kind}}'", threads, number, shown);
    let points = "field = 'v'\nkind = 'points'\npoints = ['x', 'y']";
    experiment(
        "T3",
        "echo '{\"v\": [{\"x\": 0, \"y\": 1}, {\"x\": 2, \"y\": 5}]}'",
        "",
        points,
        shown,
    );
    experiment(
        "T10",
        "echo '{\"v\": [[1, 2], [3, 40]]}'",
        "",
        "field = 'v'\nkind = 'matrix'",
        shown,
    );
    let run = ["study", "run", "T1.toml", "T10.toml", "T2.toml", "T3.toml", "--output", "r.jsonl"];
    numapilot(directory.path(), &run).success();
    let report =
        numapilot(directory.path(), &["study", "report", "r.jsonl", "--output", "page.html"]);
    let counts = "4 experiments, comparisons: 1 reproduced, 1 not run here, 3 shown";
    report.success().stdout("page.html\n").stderr(contains(counts));
    directory
}

#[test]
fn the_page_has_everything_in_it_and_its_data_beside_it() {
    let directory = results();
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let page = read("page.html");
    for text in [
        "Slow &amp; &lt;fast&gt;",
        "<b class=\"reproduced\">1</b>",
        "<b class=\"not-run-here\">1</b>",
        "no-such-program",
        "numapilot study run T1 --scale smoke",
        "2.00 to 2.00",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
    let place = |id: &str| page.find(&format!("<h2 id=\"{id}-smoke\"")).unwrap();
    assert!(place("T1") < place("T2") && place("T2") < place("T3") && place("T3") < place("T10"));
    // In this order: the score, bars and strip, lines, points, heat map.
    assert_eq!(page.matches("<svg").count(), 6);
    let conclusion = "Comparisons with a verdict: 1. The direction is the paper's in 1 of them";
    assert!(page.contains(conclusion));
    for outside in ["src=", "@import", "url(", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside} is on the page");
    }
    let csv = read("page.csv");
    assert!(csv.contains("T1,smoke,host,kind=slow,2,m,s,2.0,\n"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + (3 + 3 + 1) + 18);
    // A report made from the report's data is identical.
    let again = ["study", "report", "page.jsonl", "--output", "again.html"];
    numapilot(directory.path(), &again).success();
    assert_eq!(read("again.html"), page);
}

#[test]
fn what_is_no_result_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let report = |name: &str| numapilot(directory.path(), &["study", "report", name]).code(125);
    report("none.jsonl").stderr(contains("cannot read none.jsonl"));
    fs::write(directory.path().join("empty.jsonl"), "").unwrap();
    report("empty.jsonl").stderr(contains("has no results"));
    fs::write(directory.path().join("bad.jsonl"), "x\n").unwrap();
    report("bad.jsonl").stderr(contains("line 1"));
    report("/dev/zero").stderr(contains("more than 268435456 bytes"));
}

/// Renders the page in a browser at several widths, and checks the layout and the widths of
/// document and window.
#[test]
fn a_browser_shows_it_in_light_dark_and_on_a_phone() {
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Process::new(name).arg("--version").output().is_ok());
    let Some(browser) = found else {
        println!("skipped: no chromium on PATH; scripts/setup test installs it");
        return;
    };
    let directory = results();
    let page = directory.path().join("page.html");
    let text = fs::read_to_string(&page).unwrap();
    // The page has no scripts. The test adds one that reports the layout.
    let probe = "<script>addEventListener('load',()=>{const r=document.documentElement;\
                 r.dataset.layout=[r.scrollWidth<=innerWidth,getComputedStyle(document.body).backgroundColor,\
                 [...document.querySelectorAll('svg')].every(s=>s.getBoundingClientRect().height>10)].join(' ')})\
                 </script></body>";
    let probed = directory.path().join("probed.html");
    fs::write(&probed, text.replace("</body>", probe)).unwrap();
    let light = "true rgb(255, 255, 255) true";
    let dark = "true rgb(18, 23, 31) true";
    for (name, width, scheme, expected) in
        [("light", 1100, "1", light), ("dark", 1100, "0", dark), ("phone", 500, "1", light)]
    {
        let window = format!("--window-size={width},2400");
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        let shot = directory.path().join(format!("{name}.png"));
        let profile = directory.path().join("profile");
        let show = |what: &str, file: &Path| {
            let output = Process::new(browser)
                .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
                .arg(format!("--user-data-dir={}", profile.display()))
                .args([&window, &scheme, what])
                .arg(format!("file://{}", file.display()))
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let layout = show("--dump-dom", &probed);
        assert!(layout.contains(&format!("data-layout=\"{expected}\"")), "{name}: {layout:.400}");
        show(&format!("--screenshot={}", shot.display()), &page);
        assert!(fs::metadata(&shot).unwrap().len() > 20_000, "{name} is empty");
    }
}
