//! MONGODB-X509: the client certificate of the TLS connection names the user.

use bson::{RawDocumentBuf, raw::cstr, rawdoc};
use steadfast_core::credential::AuthMechanism;

/// Returns the only command of the conversation. The server takes the user name from the
/// certificate unless the credential has one.
pub(super) fn command(username: Option<&str>) -> RawDocumentBuf {
    let mut command =
        rawdoc! { "authenticate": 1_i32, "mechanism": AuthMechanism::MongoDbX509.as_str() };
    if let Some(username) = username {
        command.append(cstr!("user"), username);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x509_sends_the_user_name_only_if_set() {
        assert_eq!(command(None), rawdoc! { "authenticate": 1, "mechanism": "MONGODB-X509" });
        assert_eq!(
            command(Some("CN=client")),
            rawdoc! { "authenticate": 1, "mechanism": "MONGODB-X509", "user": "CN=client" }
        );
    }
}
