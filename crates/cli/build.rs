//! Tells the linker to make the release programs smaller, by a tenth: it packs relocations, and keeps one copy
//! of functions whose code is the same. It also tells the linker to have all addresses resolved when a program starts,
//! and their table made read-only then (full RELRO). With the flags of `.cargo/config.toml`, rustc does not ask for
//! this.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let variable_is = |name: &str, wanted: &str| env::var(name).is_ok_and(|value| value == wanted);
    let is_native = env::var("HOST").is_ok_and(|host| variable_is("TARGET", &host));
    let is_known_target = variable_is("TARGET", "x86_64-unknown-linux-gnu");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if is_known_target && flags.contains("relro-level=partial") {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,relro,-z,now");
    }
    if !variable_is("PROFILE", "release") || !is_native || !is_known_target {
        return;
    }
    // rustc links with its own lld for this target. Another linker, chosen by flags, may not know `--icf`.
    if !flags.contains("linker") && !flags.contains("fuse-ld") {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
    if libc_version().is_some_and(|version| version >= (2, 36)) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's GNU C library. Programs with packed relocations run with 2.36 or newer only.
fn libc_version() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
