//! Sending of bytes, with an optional rate.

use std::{io, num::NonZeroU64, time::Duration};

use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Interval between the slices of a rate-limited message.
const SLICE: Duration = Duration::from_millis(20);

/// Sends bytes. With a rate, sends them in slices with a pause after each.
pub(crate) async fn send<W>(to: &mut W, bytes: &[u8], rate: Option<NonZeroU64>) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let Some(rate) = rate else {
        to.write_all(bytes).await?;
        return to.flush().await;
    };
    let slices_per_second = 1000 / u64::try_from(SLICE.as_millis()).unwrap_or(1);
    let per_slice = usize::try_from(rate.get() / slices_per_second).unwrap_or(usize::MAX).max(1);
    for slice in bytes.chunks(per_slice) {
        to.write_all(slice).await?;
        to.flush().await?;
        let nanos = slice.len() as u128 * 1_000_000_000 / u128::from(rate.get());
        tokio::time::sleep(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn send_keeps_the_rate() {
        tokio::time::pause();
        for (bytes, rate, expected) in [(1000, 1000, 1.0), (10, 2, 5.0), (100_000, 1_000_000, 0.1)]
        {
            let began = tokio::time::Instant::now();
            let mut sent = Vec::new();
            send(&mut sent, &vec![1; bytes], NonZeroU64::new(rate)).await.unwrap();
            assert_eq!(sent.len(), bytes);
            let took = began.elapsed().as_secs_f64();
            assert!((took - expected).abs() < 0.1 * expected + 0.02, "{took} s, not {expected}");
        }
    }
}
