//! The code in `generated/` is up to date with the protocols.
//!
//! After a change of a `.proto` file, `PLACEWRIGHT_TEST_WRITE=1 cargo test -p placewright-rpc
//! generated::` writes it anew.

use std::path::Path;

const PROTOCOLS: [&str; 4] = [
    "proto/placewright/agent.proto",
    "proto/placewright/cell.proto",
    "proto/placewright/certificates.proto",
    "proto/placewright/replica.proto",
];

#[test]
fn the_code_is_generated_from_the_protocols() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated = tempfile::tempdir().unwrap();
    let protocols = PROTOCOLS.map(|file| crate_folder.join(file));
    let descriptors = protox::compile(protocols, [crate_folder.join("proto")]).unwrap();
    // Message bodies are reference-counted `Bytes`, so that a call can be retried without copying
    // them.
    tonic_prost_build::configure()
        .out_dir(generated.path())
        .bytes(".placewright.cell.v1.Payload.body")
        .compile_fds(descriptors)
        .unwrap();
    let mut names: Vec<_> = std::fs::read_dir(generated.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names.len(), PROTOCOLS.len());
    for name in names {
        let committed = crate_folder.join("generated").join(&name);
        let code = std::fs::read_to_string(generated.path().join(&name)).unwrap();
        if std::env::var_os("PLACEWRIGHT_TEST_WRITE").is_some() {
            std::fs::write(&committed, &code).unwrap();
        }
        assert!(
            std::fs::read_to_string(&committed).unwrap() == code,
            "{} is not what the protocols give: see the head of this test",
            committed.display()
        );
    }
}
