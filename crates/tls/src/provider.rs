//! The cryptography of all configurations.

use std::sync::{Arc, OnceLock};

use rustls::crypto::{CryptoProvider, ring};

/// ring, with all its cipher suites: AES-GCM and ChaCha20-Poly1305, over ECDHE where TLS is 1.2.
pub fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(ring::default_provider()))
}
