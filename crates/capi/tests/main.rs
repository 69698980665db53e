//! A C program on the C interface, with the address sanitizer where the compiler has it.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::rc::Rc;

use zoneweave_filestore::{FileStore, FormatOptions};
use zoneweave_linux::{FileDrive, Ring};
use zoneweave_runtime::Executor;
use zoneweave_zoned::{BlockCount, Geometry};

/// Libraries that the standard library of Rust needs.
const LIBRARIES: &[&str] = &["-lpthread", "-ldl", "-lm", "-lrt", "-lutil", "-lgcc_s"];

const SANITIZER: &str = "-fsanitize=address,undefined";

/// The archive that cargo built with this test: the newest, if there are those of other features.
fn archive() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("libzoneweave_capi") && name.ends_with(".a")
    };
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let changed = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    files.filter(is_ours).max_by_key(changed).expect("cargo builds the archive")
}

fn compile(source: &Path, program: &Path, flags: &[&str]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]).args(flags);
    compiler.arg("-I").arg(folder.join("include")).arg(source).arg("-o").arg(program);
    if source.ends_with("fs.c") {
        compiler.arg(archive()).args(LIBRARIES);
    }
    compiler.output().expect("a C compiler, as Rust needs it for linking")
}

/// Whether programs with the sanitizer can be built and run here.
fn has_sanitizer(folder: &Path) -> bool {
    let (source, program) = (folder.join("probe.c"), folder.join("probe"));
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    compile(&source, &program, &[SANITIZER]).status.success()
        && Command::new(&program).status().is_ok_and(|status| status.success())
}

fn make_store(path: &Path) {
    FileDrive::create(path, Geometry::new(24, BlockCount(1024)), [7; 16]).unwrap();
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let drive = FileDrive::open(&ring, &executor.handle(), path).unwrap();
    executor.run(FileStore::format(&drive, &FormatOptions::new([5; 16]))).unwrap();
}

#[test]
fn a_c_program_uses_every_function() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make_store(&folder.join("drive"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fs.c");
    let program = folder.join("fs");
    let flags = if has_sanitizer(folder) { &[SANITIZER][..] } else { &[] };
    let compiled = compile(&source, &program, flags);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&program).arg(folder.join("drive")).output().unwrap();
    let (told, errors) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && told.ends_with("ok\n"), "{told}{errors}");
    assert_eq!(errors, "", "libraries are silent");
}
