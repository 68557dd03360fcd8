//! Sending of a request: the send buffer, then a large document sequence from its own buffer.

use bytes::Buf;
use tokio::io::AsyncWriteExt;

use super::Stream;
use crate::{
    error::{Error, Result},
    sequence::Documents,
};

/// Number of bytes of scattered documents to write at a time.
const PIECE_BYTES: usize = 128 * 1024;

/// Sends `outbox` and the documents. Scattered documents are copied into `outbox` piece by piece.
pub(super) async fn send(
    stream: &mut Stream,
    outbox: &mut Vec<u8>,
    following: Option<&Documents<'_>>,
) -> Result<()> {
    match following {
        None => stream.write_all(outbox).await.map_err(Error::of_socket)?,
        Some(Documents::Whole(documents)) => {
            let mut all = outbox.as_slice().chain(*documents);
            stream.write_all_buf(&mut all).await.map_err(Error::of_socket)?;
        }
        Some(Documents::Scattered { source, positions, .. }) => {
            let mut positions = positions.clone();
            outbox.reserve(PIECE_BYTES);
            while !positions.is_empty() {
                source.append(&mut positions, outbox, PIECE_BYTES)?;
                stream.write_all(outbox).await.map_err(Error::of_socket)?;
                outbox.clear();
            }
        }
    }
    stream.flush().await.map_err(Error::of_socket)
}
