//! What the docker backend is told about containers.

/// Which image runs, and what its containers get. The defaults are those of the specification.
#[derive(Debug, Clone, PartialEq)]
pub struct DockerSettings {
    /// The runner image.
    pub image: String,
    /// Whether containers reach the network.
    pub network: bool,
    /// Processors, and parts of one.
    pub cpus: f64,
    /// Memory in bytes, unless a policy asks for less.
    pub memory_bytes: u64,
    /// The engine's socket, as a path or `unix://` address. `None` means `DOCKER_HOST`, or the
    /// usual places.
    pub socket: Option<String>,
    /// Whether code runs on the local backend when no engine is there. Its result says so.
    pub fallback: bool,
}

impl Default for DockerSettings {
    fn default() -> Self {
        Self {
            image: "antigravity-sandbox:latest".to_owned(),
            network: false,
            cpus: 0.5,
            memory_bytes: 256 * 1024 * 1024,
            socket: None,
            fallback: false,
        }
    }
}
