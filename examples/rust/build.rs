//! Generates the client of FrontierService from the contract. protox reads .proto files itself: no protoc.

const PROTOS: &str = "../../protos";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed={PROTOS}");
    let contract = protox::compile(["toehold/frontier/v1/frontier.proto"], [PROTOS])?;
    tonic_prost_build::configure().build_server(false).compile_fds(contract)?;
    Ok(())
}
