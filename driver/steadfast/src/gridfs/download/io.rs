//! Implementation of the stream traits of tokio and `futures` for downloads.

use std::{
    io::{self, SeekFrom},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::ReadBuf;

use super::GridFsDownloadStream;

impl GridFsDownloadStream {
    fn poll_copy(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        if into.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let bytes = ready!(self.poll_bytes(cx))?;
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        self.advance(count);
        Poll::Ready(Ok(count))
    }
}

impl tokio::io::AsyncRead for GridFsDownloadStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let bytes = ready!(self.poll_bytes(cx))?;
        let count = bytes.len().min(into.remaining());
        into.put_slice(&bytes[..count]);
        self.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl tokio::io::AsyncBufRead for GridFsDownloadStream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_mut().poll_bytes(cx).map_err(io::Error::from)
    }

    fn consume(mut self: Pin<&mut Self>, count: usize) {
        self.advance(count);
    }
}

impl tokio::io::AsyncSeek for GridFsDownloadStream {
    fn start_seek(mut self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        self.seek(to).map(drop)
    }

    fn poll_complete(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.position))
    }
}

impl futures_io::AsyncRead for GridFsDownloadStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_copy(cx, into)
    }
}

impl futures_io::AsyncBufRead for GridFsDownloadStream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_mut().poll_bytes(cx).map_err(io::Error::from)
    }

    fn consume(mut self: Pin<&mut Self>, count: usize) {
        self.advance(count);
    }
}

impl futures_io::AsyncSeek for GridFsDownloadStream {
    fn poll_seek(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        to: SeekFrom,
    ) -> Poll<io::Result<u64>> {
        Poll::Ready(self.seek(to))
    }
}
