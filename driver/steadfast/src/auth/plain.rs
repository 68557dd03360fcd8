//! PLAIN (RFC 4616): the password in plain text, for LDAP. Requires TLS to be safe.

use steadfast_core::credential::AuthMechanism;

use super::error::{AuthError, Cause};

/// Returns the only message of the conversation.
pub(super) fn message(username: &str, password: &str) -> Result<Vec<u8>, AuthError> {
    if username.contains('\0') || password.contains('\0') {
        return Err(AuthError::new(AuthMechanism::Plain, Cause::NulCharacter));
    }
    Ok([b"\0", username.as_bytes(), b"\0", password.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_parts_are_separated_by_nul_bytes() {
        assert_eq!(message("user", "pencil").unwrap(), b"\0user\0pencil");
    }

    #[test]
    fn user_name_or_password_with_a_nul_byte_is_rejected() {
        for (username, password) in [("us\0er", "x"), ("user", "x\0y")] {
            let error = message(username, password).unwrap_err();
            assert_eq!(error.cause(), &Cause::NulCharacter);
        }
    }
}
