//! NVMe qualified names: of the subsystem, of hosts, and of the discovery service.

/// Longest NVMe qualified name.
pub const NQN_BYTES_MAX: usize = 223;
/// The name of every discovery service.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Why a name is no NVMe qualified name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// Too long for the protocol.
    #[error("it has {bytes} bytes, and NVMe qualified names have at most {NQN_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Not of the form `nqn.yyyy-mm.domain:name`.
    #[error(
        "NVMe qualified names start with \"nqn.\" and have neither spaces nor control characters"
    )]
    Form,
}

/// Checks an NVMe qualified name.
///
/// # Errors
/// [`NqnError`] if hosts could not use it.
pub fn check_nqn(name: &str) -> Result<(), NqnError> {
    if name.len() > NQN_BYTES_MAX {
        return Err(NqnError::TooLong { bytes: name.len() });
    }
    let is_plain = name.chars().all(|letter| !letter.is_control() && !letter.is_whitespace());
    if name.starts_with("nqn.") && is_plain { Ok(()) } else { Err(NqnError::Form) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!(check_nqn("nqn.2014-08.org.nvmexpress:uuid:0"), Ok(()));
        for wrong in ["", "iqn.2014-08.org", "nqn.a b", "nqn.a\0"] {
            assert_eq!(check_nqn(wrong), Err(NqnError::Form), "{wrong:?}");
        }
        let long = format!("nqn.{}", "x".repeat(220));
        assert_eq!(check_nqn(&long), Err(NqnError::TooLong { bytes: 224 }));
    }
}
