//! What the configuration accepts and how it refuses.

use blockgate_staging::Engine;
use blockgate_store::WriteMode;

use super::*;

fn load(text: &str, variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let variables = variables.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
    Config::load((!text.is_empty()).then_some(("blockgate.toml", text)), &variables)
}

fn mistakes(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    load(text, variables).expect_err("a mistake")
}

const ACCESS: &str = "[[access]]\naccess_key = \"AKEY\"\nsecret_key = \"s3cret-s3cret\"\n";

#[test]
fn nothing_is_needed() {
    let config = load("", &[]).unwrap();
    let listeners: Vec<_> =
        config.server.listeners.iter().map(|l| (l.listen.as_str(), l.default_bucket.as_deref())).collect();
    assert_eq!(listeners, [("127.0.0.1:9800", None), ("127.0.0.1:9802", Some("kvcache"))]);
    assert_eq!(config.server.ops_listen, "127.0.0.1:9801");
    assert!(matches!(&config.upstream, Upstream::Fs { path } if path == &PathBuf::from("./blockgate-data")));
    assert_eq!(config.server.drain_timeout, Duration::from_secs(30));
    assert_eq!(config.memory_capacity_bytes, 1 << 30);
    assert!(config.access.is_empty());
}

#[test]
fn the_quickstart_address_goes_once_anything_is_set() {
    let config = load("", &[("BLOCKGATE__MEMORY__CAPACITY", "64MiB")]).unwrap();
    assert_eq!(config.server.listeners.len(), 1);
    assert_eq!(config.memory_capacity_bytes, 64 << 20);
}

#[test]
fn unknown_settings_are_refused_with_their_place() {
    assert_eq!(
        mistakes("[server]\nlisten = \"127.0.0.1:0\"\n\n# x\n\n[memory]\ncapasity = \"1GiB\"\n", &[]),
        ["blockgate.toml:7: [memory] capasity: unknown setting; accepted: capacity"]
    );
    assert_eq!(
        mistakes("", &[("BLOCKGATE__MEMORY__CAPASITY", "1GiB")]),
        ["BLOCKGATE__MEMORY__CAPASITY: unknown setting; accepted: capacity"]
    );
    assert_eq!(
        mistakes("[stage]\npath = \"/x\"\n", &[]),
        [
            "blockgate.toml:1: stage: unknown section; accepted: access, bucket, index, memory, server, staging, telemetry, \
             upstream"
        ]
    );
    assert_eq!(
        mistakes("[telemetry]\notlp_endpoint = \"http://x\"\n", &[]),
        ["blockgate.toml:2: [telemetry] otlp_endpoint: unknown setting; accepted: log_format, log_level"]
    );
    assert_eq!(
        mistakes("[server.limits]\nmax = 1\n", &[])[0].split(';').next().unwrap(),
        "blockgate.toml:2: [server.limits] max: unknown setting"
    );
}

#[test]
fn every_mistake_is_reported_at_once() {
    let mistakes = mistakes(
        "[server]\nlisten = \"nowhere\"\ndrain_timeout = 30\n[memory]\ncapacity = 0\n[index]\nentries = \"many\"\n",
        &[("BLOCKGATE__SERVER__REGION", "")],
    );
    assert_eq!(
        mistakes,
        [
            "blockgate.toml:2: [server] listen: \"nowhere\" is not accepted; accepted: a list, each \"host:port\", such as \
             \"0.0.0.0:9800\" or \"[::1]:9800\"",
            "BLOCKGATE__SERVER__REGION: \"\" is not accepted; accepted: a text that is not empty",
            "blockgate.toml:3: [server] drain_timeout: 30 is not accepted; accepted: a text such as \"500ms\", \"30s\", \
             \"10m\", \"12h\" or \"7d\"",
            "blockgate.toml:5: [memory] capacity: 0 is out of range; accepted: \"1MiB\" to \"16TiB\"",
            "blockgate.toml:7: [index] entries: \"many\" is not accepted; accepted: a whole number",
        ]
    );
}

#[test]
fn upstream_settings_that_contradict_its_kind_are_refused() {
    assert_eq!(
        mistakes("[upstream]\nkind = \"fs\"\nendpoint = \"http://127.0.0.1:9000\"\n", &[]),
        ["blockgate.toml:3: [upstream] endpoint: kind = \"fs\" has no use for it; accepted: path"]
    );
    assert_eq!(
        mistakes(&format!("{ACCESS}[upstream]\nkind = \"s3\"\npath = \"/x\"\n"), &[]),
        [
            "blockgate.toml:6: [upstream] path: kind = \"s3\" has no use for it; accepted: endpoint",
            "blockgate.toml:4: [upstream] endpoint: missing; kind = \"s3\" needs it",
            "blockgate.toml:4: [upstream] access_key: missing; kind = \"s3\" needs it, or both AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY in the environment",
            "blockgate.toml:4: [upstream] secret_key: missing; kind = \"s3\" needs it, or both AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY in the environment",
        ]
    );
    assert_eq!(
        mistakes("", &[("BLOCKGATE__UPSTREAM__KIND", "nfs")]),
        ["BLOCKGATE__UPSTREAM__KIND: \"nfs\" is not accepted; accepted: \"fs\" or \"s3\""]
    );
}

#[test]
fn an_s3_upstream_takes_the_standard_variables() {
    let text = format!("{ACCESS}[upstream]\nkind = \"s3\"\nendpoint = \"https://store.example:9000/\"\n");
    let aws = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hush-hush"), ("AWS_REGION", "eu-1")];
    let config = load(&text, &aws).unwrap();
    let Upstream::S3(upstream) = &config.upstream else { panic!("not s3") };
    assert_eq!((upstream.endpoint.as_str(), upstream.region.as_str()), ("https://store.example:9000", "eu-1"));
    assert_eq!((upstream.access_key.as_str(), upstream.secret_key.as_str()), ("id", "hush-hush"));

    // Its own settings outrank them, and half a pair is never mixed with half another.
    let own = format!("{text}access_key = \"own\"\nregion = \"here\"\n");
    assert!(mistakes(&own, &aws)[0].starts_with("blockgate.toml:4: [upstream] secret_key: missing"));
    let config = load(&format!("{own}secret_key = \"x\"\n"), &aws).unwrap();
    assert!(matches!(&config.upstream, Upstream::S3(s3) if s3.access_key == "own" && s3.region == "here"));
}

#[test]
fn an_s3_upstream_needs_access_keys() {
    let aws = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hush-hush")];
    assert_eq!(
        mistakes("[upstream]\nkind = \"s3\"\nendpoint = \"http://h:1\"\n", &aws),
        ["[[access]]: missing; kind = \"s3\" needs at least one access_key and secret_key"]
    );
}

#[test]
fn tls_needs_both_files() {
    let mistakes = mistakes("[server.tls]\ncert = \"c.pem\"\n", &[]);
    assert_eq!(mistakes, ["blockgate.toml:1: [server.tls] key: missing; [server.tls] needs both cert and key"]);
    let plain = "[[server.listener]]\nlisten = \"127.0.0.1:1\"\ntls = true\n";
    assert_eq!(
        self::mistakes(plain, &[]),
        ["blockgate.toml:3: [[server.listener]] tls: true needs [server.tls] cert and key"]
    );
}

#[test]
fn listeners_may_stand_for_buckets() {
    let text = "[server]\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n[[server.listener]]\nlisten = \"127.0.0.1:3\"\n\
                default_bucket = \"kvcache\"\n";
    let config = load(text, &[]).unwrap();
    let buckets: Vec<_> = config.server.listeners.iter().map(|l| l.default_bucket.as_deref()).collect();
    assert_eq!(buckets, [None, None, Some("kvcache")]);
    let config = load("", &[("BLOCKGATE__SERVER__LISTEN", "127.0.0.1:1, 127.0.0.1:2")]).unwrap();
    assert_eq!(config.server.listeners.len(), 2);
}

#[test]
fn an_address_is_listened_on_once() {
    assert_eq!(
        mistakes("[server]\nlisten = \"127.0.0.1:9801\"\n", &[]),
        ["blockgate.toml:2: [server] listen: 127.0.0.1:9801 is listened on twice"]
    );
    assert!(load("[server]\nlisten = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\n", &[]).is_ok());
}

#[test]
fn access_keys() {
    let twice = format!("{ACCESS}{ACCESS}");
    assert_eq!(mistakes(&twice, &[]), ["blockgate.toml:5: [[access]] access_key: \"AKEY\" is given twice"]);
    assert_eq!(
        mistakes("[[access]]\naccess_key = \"AKEY\"\n", &[]),
        ["blockgate.toml:1: [[access]] secret_key: missing; every [[access]] has one"]
    );
    assert_eq!(
        mistakes(&format!("{ACCESS}permissions = [\"read\", \"admin\"]\nbuckets = [\"a/b\"]\n"), &[]),
        [
            "blockgate.toml:5: [[access]] buckets: \"a/b\" is not accepted; accepted: a list, each a bucket name, in which \
             * stands for any run of characters and ? for one",
            "blockgate.toml:4: [[access]] permissions: \"admin\" is not accepted; accepted: a list, each \"read\" or \
             \"write\"",
        ]
    );
    assert_eq!(
        mistakes(&format!("{ACCESS}permissions = []\n"), &[]),
        ["blockgate.toml:4: [[access]] permissions: an empty list is not accepted; accepted: \"read\" or \"write\""]
    );
    let from_variables =
        [("BLOCKGATE__ACCESS__0__ACCESS_KEY", "AKEY"), ("BLOCKGATE__ACCESS__0__SECRET_KEY", "hush-hush")];
    assert_eq!(load("", &from_variables).unwrap().access[0].access_key, "AKEY");
}

#[test]
fn access_keys_that_no_client_could_use_are_refused() {
    assert_eq!(
        mistakes("[[access]]\naccess_key = \"a/b\"\nsecret_key = \"s3cret-s3cret\"\n", &[]),
        ["blockgate.toml:2: [[access]] access_key: access_key \"a/b\" must be 3 to 128 letters, digits or any of -._"]
    );
}

#[test]
fn secrets_may_lie_in_files() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hush-hush\n").unwrap();
    let path = file.path().to_str().unwrap();
    let config = load(&format!("[[access]]\naccess_key = \"AKEY\"\nsecret_key_file = {path:?}\n"), &[]).unwrap();
    assert_eq!(config.access[0].secret_key.expose(), "hush-hush");
    assert_eq!(
        mistakes(&format!("{ACCESS}secret_key_file = {path:?}\n"), &[]),
        ["blockgate.toml:3: [[access]] secret_key: contradicts secret_key_file; accepted: one of them"]
    );
    assert!(
        mistakes("[[access]]\naccess_key = \"AKEY\"\nsecret_key_file = \"/nowhere\"\n", &[])[0]
            .starts_with("blockgate.toml:3: [[access]] secret_key_file: /nowhere: ")
    );
}

#[test]
fn buckets() {
    let text = "[[bucket]]\nname = \"a-*\"\nwrite = \"async\"\nttl = \"7d\"\ndeadline_ms = 50\n[[bucket]]\nname = \"*\"\n\
                mode = \"passthrough\"\n";
    let config = load(text, &[]).unwrap();
    let policy = config.buckets.of("a-1");
    assert_eq!(policy.write, WriteMode::Async);
    assert_eq!(policy.ttl, Some(Duration::from_secs(7 * 86_400)));
    assert_eq!(policy.deadline, Some(Duration::from_millis(50)));
    assert_eq!(config.buckets.of("b").mode, blockgate_store::Mode::Passthrough);

    assert_eq!(
        mistakes("[[bucket]]\nname = \"a\"\nwrite = \"back\"\n", &[]),
        ["blockgate.toml:3: [[bucket]] write: \"back\" needs [staging]; accepted: \"through\" or \"async\""]
    );
    assert_eq!(
        mistakes("[[bucket]]\nname = \"*\"\n[[bucket]]\nname = \"b\"\n", &[]),
        ["blockgate.toml:4: [[bucket]] name: \"b\" never applies: \"*\" comes first"]
    );
    assert_eq!(
        mistakes("[[bucket]]\nname = \"a\"\nmode = \"passthrough\"\nttl = \"7d\"\n", &[]),
        ["blockgate.toml:4: [[bucket]] ttl: mode = \"passthrough\" has no use for it"]
    );
}

#[test]
fn what_is_in_force_is_printed_with_its_origin_and_without_secrets() {
    let config =
        load(&format!("{ACCESS}[memory]\ncapacity = \"64MiB\"\n"), &[("BLOCKGATE__SERVER__REGION", "any")]).unwrap();
    let text = config.in_force();
    let line =
        |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"));
    assert_eq!(line("capacity"), "capacity = \"64MiB\"                           # blockgate.toml:5");
    assert!(line("region").ends_with("# BLOCKGATE__SERVER__REGION"));
    assert!(line("listen").ends_with("# default"));
    assert!(line("secret_key").starts_with("secret_key = (hidden) "));
    assert!(!text.contains("s3cret"));
}

#[test]
fn no_message_shows_a_secret() {
    let misplaced = "[[access]]\naccess_key = \"AKEY\"\nsecretkey = \"s3cret-s3cret\"\n";
    assert!(mistakes(misplaced, &[]).iter().all(|mistake| !mistake.contains("s3cret")));
}

#[test]
fn sections_are_sections() {
    assert_eq!(mistakes("server = 5\n", &[]), ["blockgate.toml:1: [server] is a section, not a value"]);
    assert_eq!(mistakes("[access]\nx = 1\n", &[]), ["blockgate.toml:1: [[access]] is a list of sections"]);
}

fn staging(settings: &str) -> Result<blockgate_staging::Settings, Vec<String>> {
    load(&format!("[staging]\n{settings}"), &[]).map(|config| config.staging.unwrap())
}

#[test]
fn staging_is_off_unless_it_is_configured() {
    let config = load("", &[]).unwrap();
    assert!(config.staging.is_none());
    assert_eq!(config.buckets.of("any").write, WriteMode::Through);
}

#[test]
fn staging_needs_a_directory_and_a_capacity() {
    let settings = staging("path = \"/nvme\"\ncapacity = \"1TiB\"\n").unwrap();
    assert_eq!(settings.path, PathBuf::from("/nvme"));
    assert_eq!((settings.capacity_bytes, settings.segment_bytes), (1 << 40, 256 << 20));
    assert_eq!((settings.pending_bytes_max, settings.daily_write_bytes), (1 << 39, None));
    assert_eq!(settings.engine, Engine::Auto);
    assert_eq!(
        staging("segment = \"64MiB\"\n").unwrap_err(),
        [
            "blockgate.toml:1: [staging] path: missing; [staging] needs a directory on a local disk",
            "blockgate.toml:1: [staging] capacity: missing; [staging] needs to know how much of the disk it may take",
        ]
    );
    assert_eq!(
        staging("path = \"/nvme\"\ncapacity = \"1TiB\"\nsegments = 4\n").unwrap_err(),
        ["blockgate.toml:4: [staging] segments: unknown setting; accepted: capacity, daily_write_budget, engine, \
             max_pending, path, segment"]
    );
}

#[test]
fn what_staging_settings_accept() {
    let text = "path = \"/nvme\"\ncapacity = \"64MiB\"\nsegment = \"8MiB\"\nengine = \"threads\"\n\
                daily_write_budget = \"2TiB\"\nmax_pending = \"48MiB\"\n";
    let settings = staging(text).unwrap();
    assert_eq!((settings.segment_bytes, settings.engine), (8 << 20, Engine::Threads));
    assert_eq!((settings.pending_bytes_max, settings.daily_write_bytes), (48 << 20, Some(2 << 40)));
    for (given, mistake) in [
        ("engine = \"uring\"", "engine: \"uring\" is not accepted; accepted: \"auto\", \"io_uring\" or \"threads\""),
        ("segment = \"17MiB\"", "segment: larger than a quarter of capacity; accepted: at most \"16MiB\""),
        ("segment = \"512KiB\"", "segment: \"512KiB\" is out of range; accepted: \"1MiB\" to \"16GiB\""),
        ("segment = 1048577", "segment: not a multiple of 4KiB"),
        ("max_pending = \"49MiB\"", "max_pending: \"49MiB\" is out of range; accepted: 1 to \"48MiB\""),
    ] {
        let mistakes = staging(&format!("path = \"/nvme\"\ncapacity = \"64MiB\"\n{given}\n")).unwrap_err();
        assert_eq!(mistakes, [format!("blockgate.toml:4: [staging] {mistake}")]);
    }
    assert_eq!(
        staging("path = \"/nvme\"\ncapacity = \"3MiB\"\n").unwrap_err(),
        ["blockgate.toml:3: [staging] capacity: \"3MiB\" is out of range; accepted: \"4MiB\" to \"1024TiB\""]
    );
}

#[test]
fn a_small_capacity_has_small_segments() {
    for (capacity, segment_mib) in [("4MiB", 1), ("6MiB", 1), ("100MiB", 25), ("1GiB", 256), ("4GiB", 256)] {
        let settings = staging(&format!("path = \"/nvme\"\ncapacity = \"{capacity}\"\n")).unwrap();
        assert_eq!(settings.segment_bytes, segment_mib << 20, "{capacity}");
    }
}

#[test]
fn staging_and_blocks_do_not_lie_in_one_another() {
    for path in ["blockgate-data", "./blockgate-data/staging", "."] {
        assert_eq!(
            staging(&format!("path = {path:?}\ncapacity = \"1GiB\"\n")).unwrap_err(),
            ["blockgate.toml:2: [staging] path: it and [upstream] path must not hold one another"],
            "{path}"
        );
    }
    staging("path = \"blockgate-data-staging\"\ncapacity = \"1GiB\"\n").unwrap();
}

#[test]
fn with_staging_blocks_are_written_back_unless_a_bucket_says_otherwise() {
    let text = "[staging]\npath = \"/nvme\"\ncapacity = \"1TiB\"\n[[bucket]]\nname = \"a\"\nwrite = \"through\"\n\
                [[bucket]]\nname = \"b\"\nttl = \"7d\"\n";
    let buckets = load(text, &[]).unwrap().buckets;
    let modes = ["a", "b", "c"].map(|name| buckets.of(name).write);
    assert_eq!(modes, [WriteMode::Through, WriteMode::Back, WriteMode::Back]);
}
