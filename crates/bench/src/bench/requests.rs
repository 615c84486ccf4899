//! Writes the HTTP requests of the phases of the benchmark as text.

use std::fmt::Write as _;

use uuid::Uuid;

/// A fast generator of pseudo-random numbers (splitmix64). It is not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct RandomNumbers {
    state: u64,
}

impl RandomNumbers {
    /// A generator with a sequence of its own for each pair of seed and stream.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self {
            state: seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93),
        }
    }

    /// The next 64-bit number of the sequence.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next UUID, in the form of version 4.
    pub(crate) fn uuid(&mut self) -> Uuid {
        let bits = (u128::from(self.next()) << 64) | u128::from(self.next());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }
}

/// The text that all requests of a run share: the beginning of the path, and the headers.
#[derive(Debug, Clone)]
pub(crate) struct RequestBase {
    /// The path before every route, without a slash at the end.
    pub(crate) prefix: String,
    /// All headers except those about the body, each with its line end.
    pub(crate) headers: String,
}

impl RequestBase {
    /// A request that changes nothing: it lists the versions of the server's API.
    pub(crate) fn version_request(&self) -> String {
        let mut request = String::new();
        self.write(&mut request, "GET", "/", "");
        request
    }

    /// Writes a request into `output`, with a JSON body unless `body` is empty.
    pub(crate) fn write(&self, output: &mut String, method: &str, path: &str, body: &str) {
        output.clear();
        let _ = write!(
            output,
            "{method} {}{path} HTTP/1.1\r\n{}",
            self.prefix, self.headers
        );
        if body.is_empty() {
            output.push_str("\r\n");
        } else {
            let _ = write!(
                output,
                "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    }
}

/// The number of aggregates among which the hosts of a load are distributed.
const AGGREGATES: u64 = 16;

/// The traits; each host has one of them.
const TRAITS: [&str; 4] = [
    "HW_CPU_X86_AVX2",
    "HW_CPU_X86_SSE42",
    "HW_NIC_SRIOV",
    "STORAGE_DISK_SSD",
];

/// The number of requests that create one host.
pub(crate) const REQUESTS_PER_HOST: u8 = 4;

/// Writes one of the requests that create host number `number`: provider, inventories, traits,
/// aggregates. The generations in the requests are right as long as nothing else changes the provider.
pub(crate) fn write_host(
    base: &RequestBase,
    output: &mut String,
    body: &mut String,
    seed: u64,
    number: u64,
    step: u8,
) {
    let uuid = RandomNumbers::new(seed, number).uuid();
    body.clear();
    match step {
        0 => {
            let _ = write!(
                body,
                "{{\"name\":\"bench-{seed:x}-{number}\",\"uuid\":\"{uuid}\"}}"
            );
            base.write(output, "POST", "/resource_providers", body);
        }
        1 => {
            // The capacity is large, so that claims are not refused unless there are only a few hosts.
            body.push_str(
                "{\"resource_provider_generation\":0,\"inventories\":{\
                 \"VCPU\":{\"total\":1024,\"allocation_ratio\":16.0},\
                 \"MEMORY_MB\":{\"total\":16777216,\"reserved\":512},\
                 \"DISK_GB\":{\"total\":65536}}}",
            );
            base.write(
                output,
                "PUT",
                &format!("/resource_providers/{uuid}/inventories"),
                body,
            );
        }
        2 => {
            let index = number % TRAITS.len() as u64;
            let name = TRAITS[usize::try_from(index).unwrap_or(0)];
            let _ = write!(
                body,
                "{{\"resource_provider_generation\":1,\"traits\":[\"{name}\"]}}"
            );
            base.write(
                output,
                "PUT",
                &format!("/resource_providers/{uuid}/traits"),
                body,
            );
        }
        _ => {
            // Hosts use the streams from 0 on, and aggregates the last ones of all: so no aggregate has the UUID of a
            // host.
            let aggregate = RandomNumbers::new(seed, u64::MAX - number % AGGREGATES).uuid();
            let _ = write!(
                body,
                "{{\"resource_provider_generation\":2,\"aggregates\":[\"{aggregate}\"]}}"
            );
            base.write(
                output,
                "PUT",
                &format!("/resource_providers/{uuid}/aggregates"),
                body,
            );
        }
    }
}

/// Writes the request that deletes host number `number`.
pub(crate) fn write_host_deletion(base: &RequestBase, output: &mut String, seed: u64, number: u64) {
    let uuid = RandomNumbers::new(seed, number).uuid();
    base.write(output, "DELETE", &format!("/resource_providers/{uuid}"), "");
}

/// Writes a claim of a small instance by a new consumer on a host.
pub(crate) fn write_claim(
    base: &RequestBase,
    output: &mut String,
    body: &mut String,
    host: &str,
    consumer: Uuid,
) {
    body.clear();
    let _ = write!(
        body,
        "{{\"allocations\":{{\"{host}\":{{\"resources\":{{\"VCPU\":1,\"MEMORY_MB\":512,\"DISK_GB\":1}}}}}},\
         \"consumer_generation\":null,\"consumer_type\":\"INSTANCE\",\
         \"project_id\":\"bench-project\",\"user_id\":\"bench-user\"}}"
    );
    base.write(output, "PUT", &format!("/allocations/{consumer}"), body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_repeat_by_seed_and_differ_by_stream() {
        let first_uuid = |seed, stream| RandomNumbers::new(seed, stream).uuid();
        assert_eq!(first_uuid(1, 1), first_uuid(1, 1));
        assert_ne!(first_uuid(1, 1), first_uuid(1, 2));
        assert_ne!(first_uuid(1, 1), first_uuid(2, 1));
        assert_eq!(first_uuid(1, 1).get_version_num(), 4);
    }
}
