//! What the docker backend is told: the image, what a container may use, and where the engine is.

/// How containers are made.
#[derive(Debug, Clone, PartialEq)]
pub struct DockerSettings {
    /// The image.
    pub image: String,
    /// Whether code in a container may use the network.
    pub network: bool,
    /// Processors a container may use.
    pub cpus: f64,
    /// Memory a container may use.
    pub memory_bytes: u64,
    /// The engine's socket; `None` means `DOCKER_HOST` or one of the usual places.
    pub socket: Option<String>,
    /// Whether the local backend runs the code, visibly, when there is no engine.
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
