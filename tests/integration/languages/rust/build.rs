fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["toehold/frontier/v1/frontier.proto", "toehold/frontier/v1/admin.proto", "toehold/node/v1/node.proto"];
    let contract = protox::compile(files, [std::env::var("PROTOS")?])?;
    tonic_prost_build::configure().build_server(false).compile_fds(contract)?;
    Ok(())
}
