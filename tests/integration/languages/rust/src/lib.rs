pub mod toehold {
    pub mod frontier { pub mod v1 { tonic::include_proto!("toehold.frontier.v1"); } }
    pub mod node { pub mod v1 { tonic::include_proto!("toehold.node.v1"); } }
}
