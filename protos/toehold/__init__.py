"""The contract: packages of generated code beside the .proto files that they come from."""
