//! GridFS files whose requests and replies a proxy drops: a stored file is complete, and an aborted upload leaves
//! no documents.

use std::time::Instant;

use steadfast::{
    Client,
    bson::{Bson, Document, doc},
    error::{ErrorKind, GridFsErrorKind, Result},
    gridfs::{GridFsBucket, GridFsUploadStream},
    options::GridFsBucketOptions,
};
use testbed::{Options, ReplicaSet};
use tokio::{io::AsyncWriteExt, task::JoinSet};

use crate::{bounded, lossy_proxy::LossyProxy, report, write_record};

const DATABASE: &str = "lost";
const TASKS: u8 = 24;
const FILES: u8 = 4;
const PARTS: usize = 12;
const CHUNK_BYTES: u32 = 5;
/// Number of bytes in one write: two chunks and a part of a third.
const PART_BYTES: usize = 11;
const LOSE_EVERY: u64 = 7;
/// Maximum number of `abort` calls for one upload, because each may be lost.
const ABORTS: usize = 50;

fn bucket(client: &Client) -> GridFsBucket {
    let options = GridFsBucketOptions::builder().chunk_size_bytes(CHUNK_BYTES).build();
    client.database(DATABASE).gridfs_bucket(options)
}

/// Results of the uploads of a task.
#[derive(Default)]
struct Uploads {
    stored: Vec<(Bson, u8)>,
    aborted: Vec<Bson>,
}

async fn write_part(upload: &mut GridFsUploadStream, fill: u8) -> Result<()> {
    upload.write_all(&[fill; PART_BYTES]).await?;
    Ok(upload.flush().await?)
}

/// Uploads a file with many commands, and aborts the upload after an error.
async fn upload(bucket: &GridFsBucket, fill: u8, uploads: &mut Uploads) {
    let mut upload = bucket.open_upload_stream("file").await.unwrap();
    let id = upload.id().clone();
    let mut result = Ok(());
    for _ in 0..PARTS {
        result = write_part(&mut upload, fill).await;
        if result.is_err() {
            break;
        }
    }
    if result.is_ok() {
        result = upload.close().await;
    }
    let Err(error) = result else { return uploads.stored.push((id, fill)) };
    assert!(!error.is_duplicate_key_error(), "our own chunk: {error}");
    for _ in 0..ABORTS {
        match upload.abort().await {
            Ok(()) => return uploads.aborted.push(id),
            Err(error) => assert!(
                matches!(&*error.kind, ErrorKind::GridFs(GridFsErrorKind::AbortError { .. })),
                "{error}"
            ),
        }
    }
    panic!("{ABORTS} attempts to abort are enough");
}

/// pitfalls 6 and 8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gridfs_file_is_stored_once_or_not_at_all_despite_lost_messages() {
    testbed::require!(V6_0);
    bounded(async {
        let began = Instant::now();
        let set = ReplicaSet::start(1, Options::new()).unwrap();
        let direct = bucket(&Client::with_uri_str(set.uri()).await.unwrap());
        direct.upload_from_stream("first", &b""[..]).await.unwrap();
        let proxy = LossyProxy::start(set.addresses()[0], LOSE_EVERY).await;

        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let bucket = bucket(&Client::with_uri_str(proxy.uri()).await.unwrap());
            tasks.spawn(async move {
                let mut uploads = Uploads::default();
                for nth in 0..FILES {
                    upload(&bucket, task * FILES + nth, &mut uploads).await;
                }
                uploads
            });
        }
        let mut all = Uploads::default();
        while let Some(done) = tasks.join_next().await {
            let done = done.expect("no task panics");
            all.stored.extend(done.stored);
            all.aborted.extend(done.aborted);
        }

        let (requests, replies) = (proxy.lost_requests(), proxy.lost_replies());
        report(&format!(
            "files: {requests} requests and {replies} replies lost in {:.1} s; {} stored, {} aborted",
            began.elapsed().as_secs_f32(),
            all.stored.len(),
            all.aborted.len()
        ));
        assert!(requests > 20 && replies > 20, "too few were lost to show anything");
        assert!(all.stored.len() > all.aborted.len(), "most survive");
        audit(&set, &direct, &all).await;
    })
    .await;
}

/// Compares the results of the uploads with the contents of the bucket.
async fn audit(set: &ReplicaSet, direct: &GridFsBucket, uploads: &Uploads) {
    for (id, fill) in &uploads.stored {
        let mut contents = Vec::new();
        direct.download_to_stream(id.clone(), &mut contents).await.unwrap();
        assert_eq!(contents, vec![*fill; PARTS * PART_BYTES]);
    }
    let chunks: Vec<Document> = write_record::documents(set, DATABASE, "fs.chunks");
    let of_a_file = (PARTS * PART_BYTES).div_ceil(CHUNK_BYTES as usize);
    assert_eq!(chunks.len(), uploads.stored.len() * of_a_file, "no chunk is left over");
    for id in &uploads.aborted {
        assert!(direct.find_one(doc! { "_id": id }).await.unwrap().is_none());
    }
}
