"""How the contract is spoken: requests and answers, retries, streams and uploads."""
