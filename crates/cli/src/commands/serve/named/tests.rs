//! Volumes of configuration files: what is served, and what is refused with which line.

use std::fs;
use std::num::NonZeroU64;
use std::time::Duration;

use super::*;

/// The problems of a file, with their lines.
fn problems(text: &str) -> Vec<String> {
    let config = match Config::parse(text) {
        Ok(config) => config,
        Err(problems) => return problems.iter().map(line).collect(),
    };
    let of = |volume: &VolumeTable| volume.request().err().unwrap_or_default();
    config.volumes.iter().flat_map(of).map(|problem| line(&problem)).collect()
}

fn line(Problem { line, text }: &Problem) -> String {
    format!("{line}: {text}")
}

/// Asserts that a file has one problem, which begins like this.
#[track_caller]
fn refuses(text: &str, begins: &str) {
    let found = problems(text);
    assert!(found.len() == 1 && found[0].starts_with(begins), "{found:#?} for {text}");
}

#[test]
fn a_volume_has_the_options_of_the_command_line() {
    let text = "\
[volume.vol0]
search = [\"/srv\"]
wait = \"30s\"
without = [\"any\"]
spare = [\"/dev/ng8n1\", \"/dev/ng9n1\"]
rebuild-limit = 200_000_000
index-memory = \"256M\"
no-hedging = true
force = false
write-mode = \"array\"
nbd = { socket = [\"tcp:127.0.0.1:10809\"], export = \"disk\" }
ublk = true

[volume.vol0.nvme-tcp]
listen = \"127.0.0.1:4420\"
allow-host = \"nqn.a:b\"
";
    let config = Config::parse(text).unwrap();
    let [volume] = &config.volumes[..] else { panic!("one volume") };
    let (served, places) = volume.request().unwrap();
    assert_eq!(served.by_name.array.as_deref(), Some("vol0"), "the array has the volume's name");
    assert_eq!(served.by_name.search, ["/srv"].map(PathBuf::from));
    assert_eq!(served.wait, Duration::from_secs(30));
    assert_eq!(served.rebuild_limit, NonZeroU64::new(200_000_000));
    assert_eq!((served.spare.len(), served.index_memory), (2, Some(256 << 20)));
    assert!(served.no_hedging && !served.force && served.drives.is_empty());
    assert_eq!((places.endpoints.len(), places.export.as_deref()), (1, Some("disk")));
    assert!(places.ublk == Some(None) && places.nvme_tcp.is_some() && places.fuse.is_none());
    assert_eq!(
        volume.commands()[0],
        "zoneweave serve nbd --export=disk --socket=tcp:127.0.0.1:10809 --index-memory=256M \
         --no-hedging --rebuild-limit=200000000 --search=/srv --spare=/dev/ng8n1 \
         --spare=/dev/ng9n1 --wait=30s --without=any --write-mode=array --array=vol0"
    );
}

#[test]
fn drives_or_another_array_can_be_named() {
    let text = "[volume.a]\ndrives = [\"d/0\", \"-d\"]\nublk.number = 7\n\
                [volume.b]\narray = \"8f\"\nublk = { number = 0x10 }\n\
                [volume.s]\ndrives = [\"z0\", \"z1\"]\nstore = { policy = \"least-worn\" }\n\
                [volume.z]\nforce = true\nzoned = { ublk = true }\n";
    let config = Config::parse(text).unwrap();
    let [a, b, s, z] = &config.volumes[..] else { panic!("four volumes") };
    let (served, places) = a.request().unwrap();
    assert_eq!(served.drives, ["d/0", "-d"].map(PathBuf::from));
    assert_eq!(places.ublk, Some(Some(7)));
    let (served, places) = b.request().unwrap();
    assert_eq!((served.by_name.array.as_deref(), places.ublk), (Some("8f"), Some(Some(16))));
    let (served, places) = s.request().unwrap();
    assert_eq!(served.drives, ["z0", "z1"].map(PathBuf::from));
    assert!(places.has_store());
    assert_eq!(s.commands(), ["zoneweave fs serve --policy=least-worn -- 'z0,z1'"]);
    let (served, places) = z.request().unwrap();
    assert!(served.force && places.ublk == Some(None));
}

#[test]
fn unknown_keys_have_a_suggestion_and_a_line() {
    let volume = "[volume.v]\nublk = true\n";
    refuses("[volumes.v]\n", "1: unknown key \"volumes\": did you mean \"volume\"?");
    refuses(
        "[volume.v]\nublkk = true\nublk = true\n",
        "2: volume v: unknown key \"ublkk\": did you mean \"ublk\"?",
    );
    refuses(
        &format!("{volume}rebuild_limit = \"1G\"\n"),
        "3: volume v: unknown key \"rebuild_limit\": did you mean \"rebuild-limit\"?",
    );
    refuses(
        "[volume.v]\n[volume.v.nbd]\nsockt = \"unix:/s\"\n",
        "3: volume v: unknown key \"sockt\": did you mean \"socket\"?",
    );
    refuses(&format!("{volume}qqq = 1\n"), "3: volume v: unknown key \"qqq\": use one of ");
    refuses(
        &format!("{volume}socket = \"unix:/s\"\n"),
        "3: volume v: socket is a key of a front end",
    );
    refuses(
        "[volume.v]\nublk = { wait = \"1s\" }\n",
        "2: volume v: wait is a key of [volume.v] itself",
    );
    refuses(
        "[volume.z]\nzoned = true\nspare = [\"d\"]\n",
        "3: volume z: spare is for block volumes",
    );
}

#[test]
fn wrong_values_say_their_line() {
    let volume = "[volume.v]\nublk = true\n";
    for (line, begins) in [
        (
            "wait = true",
            "3: volume v: wait takes a string or a whole number, and this is of type boolean",
        ),
        ("wait = 1.5", "3: volume v: wait takes a string or a whole number"),
        ("wait = \"soon\"", "3: volume v: invalid value 'soon' for '--wait <TIME>'"),
        ("force = \"yes\"", "3: volume v: force is true or false"),
        ("wait = [\"1s\"]", "3: volume v: wait takes one value"),
        ("spare = [1.0]", "3: volume v: spare takes a string"),
        ("drives = 5", "3: volume v: drives is a list of paths"),
        ("rebuild-limit = 5", "3: volume v: invalid value '5' for '--rebuild-limit <SIZE>'"),
        ("array = \"v\"\ndrives = [\"d\"]", "3: volume v: the argument"),
    ] {
        refuses(&format!("{volume}{line}\n"), begins);
    }
    refuses(
        "[volume.v]\nnbd = true\n",
        "2: volume v: the following required arguments were not provided: --socket <ADDRESS>",
    );
    refuses("[volume.v]\nnbd = { socket = \"udp:1\" }\n", "2: volume v: --socket:");
    refuses(
        "[volume.v]\nnbd = 5\nublk = true\n",
        "2: volume v: nbd is a table of its options, or true",
    );
    refuses("[volume.v]\n", "1: volume v: has no front end: add one of nbd, ublk");
    refuses("[volume.v]\nublk = false\n", "1: volume v: has no front end");
    refuses("[volume]\nv = 1\n", "2: volume v: is no table");
    refuses("volume = 1\n", "1: volumes are tables");
    refuses("[volume.\"a/b\"]\nublk = true\n", "1: volume a/b: has a name that no unit can have");
    refuses("\n[volume.v\n", "2: ");
    refuses(
        "[volume.v]\nublk = true\nstore = true\n",
        "2: volume v: a file store shares its zones",
    );
    refuses(
        "[volume.v]\nublk = true\nzoned = { ublk = true }\n",
        "3: volume v: --ublk: is given twice",
    );
}

#[test]
fn a_volume_is_served_beside_one_with_problems() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zoneweave.toml");
    fs::write(&path, "[volume.a]\nublk = true\n[volume.b]\nublc = true\n").unwrap();
    let named = |name: &str| {
        let file = ConfigFile { path: path.clone() };
        Named { name: name.to_owned(), file }.request().map(|_| ())
    };
    assert!(named("a").is_ok());
    let CliError::Config { problems } = named("b").unwrap_err() else { panic!("a problem") };
    assert!(problems[0].contains("zoneweave.toml:4: volume b: unknown key"), "{problems:?}");
    assert!(matches!(named("c"), Err(CliError::NoVolume { volumes, .. }) if volumes == ["a", "b"]));
    fs::remove_file(&path).unwrap();
    assert!(matches!(named("a"), Err(CliError::File { .. })));
}
