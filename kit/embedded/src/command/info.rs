//! Diagnostic commands: `ping`, `buildInfo`, `serverStatus`, and others that shells and test suites
//! run at start.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    COMMANDS, Command, Handler, ReadContext,
    arguments::{Arguments, only_on_admin, whole},
    lock,
};

/// Name of the storage engine in `serverStatus`.
const ENGINE: &str = "blackpipe";

/// Runs `ping`.
pub(crate) fn ping(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    Arguments::of(reading.call, "ping", &[])?;
    Ok(doc! {})
}

/// Runs `buildInfo`.
pub(crate) fn build_info(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let version = &reading.server_info.version;
    let mut numbers: Vec<Bson> = version
        .split(['.', '-'])
        .map_while(|part| part.parse::<i32>().ok())
        .map(Bson::Int32)
        .collect();
    numbers.resize(4, Bson::Int32(0));
    Ok(doc! {
        "version": version,
        "gitVersion": ENGINE,
        "modules": [],
        "allocator": "system",
        "javascriptEngine": "none",
        "sysInfo": "deprecated",
        "versionArray": numbers,
        "openssl": { "running": "disabled", "compiled": "disabled" },
        "buildEnvironment": {
            "distmod": "",
            "distarch": std::env::consts::ARCH,
            "target_arch": std::env::consts::ARCH,
            "target_os": std::env::consts::OS,
        },
        "bits": i32::try_from(usize::BITS).unwrap_or(64),
        "debug": false,
        "maxBsonObjectSize": 16 * 1024 * 1024,
        "storageEngines": [ENGINE],
    })
}

/// Runs `serverStatus`. Fields about connections and the replica set (`connections`, `network`,
/// `repl`) are added by the server.
pub(crate) fn server_status(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let server_info = reading.server_info;
    let up = reading.env.now.saturating_duration_since(server_info.started);
    let seconds = i64::try_from(up.as_secs()).unwrap_or(i64::MAX);
    let open = i64::try_from(lock(reading.cursors).len()).unwrap_or(i64::MAX);
    Ok(doc! {
        "host": &server_info.address,
        "version": &server_info.version,
        "process": "mongod",
        "pid": i64::from(server_info.process_id),
        "uptime": up.as_secs_f64().trunc(),
        "uptimeMillis": i64::try_from(up.as_millis()).unwrap_or(i64::MAX),
        "uptimeEstimate": seconds,
        "localTime": reading.env.now,
        "metrics": { "cursor": { "open": { "total": open } } },
        "storageEngine": {
            "name": ENGINE,
            "supportsCommittedReads": true,
            "supportsSnapshotReadConcern": true,
            "readOnly": false,
            "persistent": false,
        },
    })
}

/// Runs `hostInfo`.
pub(crate) fn host_info(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    Arguments::of(reading.call, "hostInfo", &[])?;
    Ok(doc! {
        "system": {
            "currentTime": reading.env.now,
            "hostname": &reading.server_info.address,
            "cpuAddrSize": i32::try_from(usize::BITS).unwrap_or(64),
            "cpuArch": std::env::consts::ARCH,
        },
        "os": { "type": std::env::consts::OS, "name": std::env::consts::OS },
        "extra": {},
    })
}

/// Runs `getCmdLineOpts`: the options of a real server with this configuration.
pub(crate) fn get_cmd_line_opts(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    only_on_admin(reading.call)?;
    Arguments::of(reading.call, "getCmdLineOpts", &[])?;
    let server_info = reading.server_info;
    let mut argv = vec![Bson::from(ENGINE)];
    let mut parsed = Document::new();
    if let Some((_, port)) = server_info.address.rsplit_once(':') {
        argv.extend([Bson::from("--port"), Bson::from(port)]);
        parsed.insert("net", doc! { "port": port.parse::<i32>().unwrap_or_default() });
    }
    if let Some(name) = &server_info.set_name {
        argv.extend([Bson::from("--replSet"), Bson::from(name.as_str())]);
        parsed.insert("replication", doc! { "replSet": name });
    }
    argv.extend([Bson::from("--setParameter"), Bson::from("enableTestCommands=1")]);
    parsed.insert("setParameter", doc! { "enableTestCommands": "1" });
    Ok(doc! { "argv": argv, "parsed": parsed })
}

/// Runs `getLog`. The log has no lines.
pub(crate) fn get_log(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    only_on_admin(reading.call)?;
    let arguments = Arguments::of(reading.call, "getLog", &[])?;
    match arguments.required("getLog", arguments.text("getLog")?)? {
        "*" => Ok(doc! { "names": ["global", "startupWarnings"] }),
        "global" | "startupWarnings" => Ok(doc! { "totalLinesWritten": 0, "log": [] }),
        other => {
            Err(Fault::new(Code::named(96, "OperationFailed"), format!("No log named '{other}'")))
        }
    }
}

/// Runs `listCommands`. The list has the commands on data, not those on connections, users and the
/// set.
pub(crate) fn list_commands(_: &ReadContext<'_>) -> Result<Document, Fault> {
    let describe = |command: &Command| {
        let versions: &[&str] = if command.stable { &["1"] } else { &[] };
        let writes = matches!((command.run)(&Document::new()), Handler::Write(_));
        let description = doc! {
            "help": "",
            "requiresAuth": !command.on_any_member,
            "secondaryOk": command.on_any_member,
            "adminOnly": false,
            "secondaryOverrideOk": !writes,
            "apiVersions": versions,
            "deprecatedApiVersions": [],
        };
        (command.name.to_owned(), Bson::Document(description))
    };
    let commands: Document = COMMANDS.iter().map(describe).collect();
    Ok(doc! { "commands": commands })
}

/// Runs `currentOp`. Commands run one after the other, so no other operation is ever in progress.
pub(crate) fn current_op(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    only_on_admin(reading.call)?;
    Ok(doc! { "inprog": [] })
}

/// Runs `killOp`. The operation has always ended before.
pub(crate) fn kill_op(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    only_on_admin(reading.call)?;
    let arguments = Arguments::of(reading.call, "killOp", &["op"])?;
    let Some(op) = arguments.value("op") else {
        return Err(Fault::new(Code::named(4, "NoSuchKey"), "Missing expected field \"op\""));
    };
    if whole(op).is_none() {
        let found = steadfast_query::value::type_name(op);
        return Err(Fault::type_mismatch(format!(
            "Expected field \"op\" to have numeric type, but found {found}"
        )));
    }
    Ok(doc! { "info": "attempting to kill op" })
}

/// Runs `profile`. The profiler is always off.
pub(crate) fn profile(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let fields = ["slowms", "sampleRate", "filter"];
    let arguments = Arguments::of(reading.call, "profile", &fields)?;
    if matches!(arguments.integer("profile")?, Some(1 | 2)) {
        return Err(Fault::new(Code::NOT_IMPLEMENTED, "there is no profiler"));
    }
    Ok(doc! { "was": 0, "slowms": 100, "sampleRate": 1.0 })
}

/// Runs `planCacheClear`. No query plan is cached.
pub(crate) fn plan_cache_clear(_: &ReadContext<'_>) -> Result<Document, Fault> {
    Ok(doc! {})
}

/// Runs `testVersion2` and `testVersions1And2`, which exist for tests of the stable API.
pub(crate) fn test_version(_: &ReadContext<'_>) -> Result<Document, Fault> {
    Ok(doc! {})
}

/// Rejects a known command that is not supported here.
pub(crate) fn unsupported(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let name = &reading.call.name;
    Err(Fault::new(Code::COMMAND_NOT_SUPPORTED, format!("{name} is not supported")))
}
