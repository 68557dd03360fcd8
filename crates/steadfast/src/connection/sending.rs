//! Sending a request: what is in the send buffer, and the documents that follow it from where they are.

use bytes::Buf;
use tokio::io::AsyncWriteExt;

use super::Stream;
use crate::{error::Result, sequence::Documents};

/// How much of scattered documents is written at a time.
const PIECE_BYTES: usize = 128 * 1024;

/// Sends `outbox`, which serves for the pieces of scattered documents afterwards.
pub(super) async fn send(
    stream: &mut Stream,
    outbox: &mut Vec<u8>,
    following: Option<&Documents<'_>>,
) -> Result<()> {
    match following {
        None => stream.write_all(outbox).await?,
        Some(Documents::Whole(documents)) => {
            stream.write_all_buf(&mut outbox.as_slice().chain(*documents)).await?;
        }
        Some(Documents::Scattered { source, positions, .. }) => {
            let mut positions = positions.clone();
            outbox.reserve(PIECE_BYTES);
            while !positions.is_empty() {
                source.append(&mut positions, outbox, PIECE_BYTES)?;
                stream.write_all(outbox).await?;
                outbox.clear();
            }
        }
    }
    Ok(stream.flush().await?)
}
