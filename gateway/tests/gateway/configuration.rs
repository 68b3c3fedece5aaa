//! Configuration as a user meets it: messages, exit status, `check`, `version`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::process::{ACCESS_KEY, SECRET_KEY, run};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_mistake_is_told_with_file_line_setting_and_what_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("blockgate.toml"),
        "# mine\n\n[server]\nregion = \"any\"\n\n[memory]\ncapasity = \"1GiB\"\n",
    )
    .unwrap();
    for command in ["serve", "check"] {
        let output = run(directory.path(), &[command, "--config", "blockgate.toml"], &[("INDEX__ENTRIES", "0")]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            text(output.stderr),
            "BLOCKGATE__INDEX__ENTRIES: 0 is out of range; accepted: 1000 to 10000000000\n\
             blockgate.toml:7: [memory] capasity: unknown setting; accepted: capacity\n"
                .lines()
                .rev()
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        );
        assert_eq!(text(output.stdout), "");
    }
    assert!(!directory.path().join("blockgate-data").exists(), "nothing is touched");
}

#[test]
fn a_missing_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["serve", "--config", "nowhere.toml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(output.stderr), "nowhere.toml: No such file or directory (os error 2)\n");
}

#[test]
fn a_bad_log_level_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["serve"], &[("TELEMETRY__LOG_LEVEL", "info,blockgate=loud")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(output.stderr).contains("info,blockgate=loud"));
}

#[test]
fn check_shows_what_is_in_force_and_tries_the_upstream() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("blockgate.toml");
    fs::write(&path, format!("[[access]]\naccess_key = \"{ACCESS_KEY}\"\nsecret_key = \"{SECRET_KEY}\"\n")).unwrap();
    fs::create_dir(directory.path().join("blockgate-data")).unwrap();
    let output = run(directory.path(), &["check", "--config", "blockgate.toml"], &[("MEMORY__CAPACITY", "64MiB")]);
    let shown = text(output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    for line in [
        "access_key = \"TESTACCESSKEY\"                 # blockgate.toml:2",
        "secret_key = (hidden)                        # blockgate.toml:3",
        "capacity = \"64MiB\"                           # BLOCKGATE__MEMORY__CAPACITY",
        "kind = \"fs\"                                  # default",
        "access keys: 1 configured",
        "upstream writes: work",
        "keys through blockgate: all stay apart and are listed",
    ] {
        assert!(shown.lines().any(|other| other == line), "{line}: {shown}");
    }
    assert!(shown.contains("\nupstream: fs answers in "), "{shown}");
    assert!(!shown.contains(SECRET_KEY));
    let left = fs::read_dir(directory.path().join("blockgate-data")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".blockgate"], "the bucket is gone again");
}

#[test]
fn what_check_shows_can_be_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let keys = "[[access]]\naccess_key = \"one\"\nsecret_key = \"secret-one\"\n[[access]]\naccess_key = \"two\"\nsecret_key = \"secret-two\"\n";
    fs::write(directory.path().join("two.toml"), keys).unwrap();
    let output = run(directory.path(), &["check", "--offline", "--config", "two.toml"], &[]);
    let shown = text(output.stdout);
    let (toml, _) = shown.split_once("\n\nmemory: ").unwrap();
    let table: toml::Table =
        toml.replace("(hidden)", "\"hidden\"").parse().unwrap_or_else(|error| panic!("{error}\n{toml}"));
    let access = table["access"].as_array().unwrap();
    assert_eq!((access[0]["access_key"].as_str(), access[1]["access_key"].as_str()), (Some("one"), Some("two")));
}

#[test]
fn check_creates_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["check"], &[("MEMORY__CAPACITY", "64MiB")]);
    let shown = text(output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(shown.contains("upstream: ./blockgate-data is not there"), "{shown}");
    assert!(shown.contains("of every other bucket is 64MiB"), "blocks above memory are named: {shown}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn check_reads_the_credentials_that_serving_would() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("blockgate-data/.blockgate");
    fs::create_dir_all(&own).unwrap();
    let credentials = own.join("credentials");
    fs::write(&credentials, "[default]\naws_access_key_id = AK\n").unwrap();
    fs::set_permissions(&credentials, fs::Permissions::from_mode(0o600)).unwrap();
    let output = run(directory.path(), &["check", "--offline"], &[]);
    let shown = text(output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("access keys: PROBLEM: credentials file "), "{shown}");
}

#[test]
fn check_fails_where_serving_would() {
    let directory = tempfile::tempdir().unwrap();
    let variables = [
        ("UPSTREAM__KIND", "s3"),
        // Nothing listens on the discard port.
        ("UPSTREAM__ENDPOINT", "http://127.0.0.1:9"),
        ("UPSTREAM__ACCESS_KEY", ACCESS_KEY),
        ("UPSTREAM__SECRET_KEY", SECRET_KEY),
        ("ACCESS__0__ACCESS_KEY", ACCESS_KEY),
        ("ACCESS__0__SECRET_KEY", SECRET_KEY),
        ("MEMORY__CAPACITY", "8TiB"),
    ];
    let output = run(directory.path(), &["check"], &variables);
    let shown = text(output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("memory: PROBLEM: the machine has "), "{shown}");
    assert!(shown.contains("upstream: PROBLEM: "), "{shown}");
    assert_eq!(text(output.stderr), "blockgate: 2 problems\n");

    let output = run(directory.path(), &["check", "--offline"], &variables);
    assert!(text(output.stdout).ends_with("upstream: not asked (--offline)\n"));
    assert_eq!(text(output.stderr), "blockgate: 1 problem\n");
}

#[test]
fn version_tells_what_it_was_built_for() {
    let directory = tempfile::tempdir().unwrap();
    let shown = text(run(directory.path(), &["version"], &[]).stdout);
    assert!(shown.starts_with(&format!("blockgate {} (", env!("CARGO_PKG_VERSION"))), "{shown}");
    assert!(shown.contains("linux"), "{shown}");
}
