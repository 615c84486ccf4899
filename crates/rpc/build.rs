//! Compiles the protocols; no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "proto/placewright/agent.proto",
        "proto/placewright/cell.proto",
    ];
    for file in files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    // Message bodies are reference-counted `Bytes`, so that a call can be retried without copying
    // them.
    tonic_prost_build::configure()
        .bytes(".placewright.cell.v1.Payload.body")
        .compile_fds(descriptors)?;
    Ok(())
}
