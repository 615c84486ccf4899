//! The code in `generated/` is up to date with the protocol.
//!
//! After a change of `proto/etcd.proto`, `PLACEWRIGHT_TEST_WRITE=1 cargo test -p placewright-journal-etcd
//! generated::` writes it anew.

use std::path::Path;

#[test]
fn the_code_is_generated_from_the_protocol() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated = tempfile::tempdir().unwrap();
    let protocol = crate_folder.join("proto/etcd.proto");
    let descriptors = protox::compile([protocol], [crate_folder.join("proto")]).unwrap();
    // Keys and values are reference-counted `Bytes`, so that a request can be sent again without copying it.
    tonic_prost_build::configure()
        .build_server(false)
        .out_dir(generated.path())
        .bytes(".")
        .compile_fds(descriptors)
        .unwrap();
    let name = "etcdserverpb.rs";
    let committed = crate_folder.join("generated").join(name);
    let code = std::fs::read_to_string(generated.path().join(name)).unwrap();
    if std::env::var_os("PLACEWRIGHT_TEST_WRITE").is_some() {
        std::fs::write(&committed, &code).unwrap();
    }
    assert!(
        std::fs::read_to_string(&committed).unwrap() == code,
        "{} is not what the protocol gives: see the head of this test",
        committed.display()
    );
}
