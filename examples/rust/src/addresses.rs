//! The addresses that a crawl allows (FetchPolicy.allowed_addresses).

use std::net::IpAddr;

use ipnet::IpNet;

/// Networks for special purposes (IANA's registries), and the metadata services of clouds.
const NOT_PUBLIC: &[&str] = &[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3ffe::/16",
    "3fff::/20",
];

/// Whether a crawl may connect to an address if it allows `public` or `loopback` alone, or these networks.
pub fn allows(allowed: &[String], address: IpAddr) -> bool {
    let address = address.to_canonical(); // ::ffff:127.0.0.1 is 127.0.0.1
    allowed.iter().any(|each| match each.as_str() {
        "loopback" => address.is_loopback(),
        "public" => {
            ["0.0.0.0/0", "2000::/3"].iter().any(|network| contains(network, address))
                && !NOT_PUBLIC.iter().any(|network| contains(network, address))
        }
        network => contains(network, address),
    })
}

/// Whether a network such as `10.1.0.0/16`, or a single address, contains an address.
fn contains(network: &str, address: IpAddr) -> bool {
    match network.parse::<IpNet>() {
        Ok(network) => network.contains(&address),
        Err(_) => network.parse() == Ok(address),
    }
}
