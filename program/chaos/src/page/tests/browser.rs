//! A headless Chromium, driven by the part of WebDriver that the tests need.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio, id},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const CHROMIUMS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Bound on each step, which normally takes a fraction of it.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A browser with one window, which is closed when it is dropped.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: PathBuf,
}

impl Browser {
    /// Starts the browser.
    ///
    /// # Errors
    /// The name of a missing program.
    pub(crate) fn start() -> Result<Self, String> {
        let chromium = CHROMIUMS.iter().find_map(|name| installed(name));
        let chromium = chromium.ok_or("Chromium is not installed")?;
        let chromedriver = installed("chromedriver").ok_or("chromedriver is not installed")?;
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let nth = STARTED.fetch_add(1, Relaxed);
        let profile = env::temp_dir().join(format!("steadfast-page-{}-{nth}", id()));
        fs::create_dir_all(&profile).expect("a directory for the browser");
        let (driver, port) = driver(&chromedriver);
        let mut browser = Self { driver, port, session: String::new(), profile };
        browser.open(&chromium);
        Ok(browser)
    }

    fn open(&mut self, chromium: &Path) {
        let profile = format!("--user-data-dir={}", self.profile.display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            &profile,
        ];
        let capabilities = json!({
            "goog:chromeOptions": { "binary": chromium, "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "timeouts": { "script": TIMEOUT.as_millis(), "pageLoad": TIMEOUT.as_millis() },
        });
        let request = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let opened = self.ask("POST", "/session", &request);
        self.session = opened["sessionId"].as_str().expect("a session").to_owned();
    }

    /// Opens a file.
    pub(crate) fn show(&self, file: &Path) {
        self.command("url", &json!({ "url": format!("file://{}", file.display()) }));
    }

    /// Sets the size of the window, and light or dark colours.
    pub(crate) fn emulate(&self, (width, height): (u32, u32), scheme: &str) {
        let is_phone = width < 500;
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone }),
        );
        let emulated = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.devtools("Emulation.setEmulatedMedia", json!({ "media": "", "features": [emulated] }));
        // The page is notified later.
        self.until(&format!(
            "document.documentElement.clientWidth === {width} && \
             matchMedia('(prefers-color-scheme: {scheme})').matches"
        ));
    }

    /// Waits until an expression is true in the page.
    fn until(&self, expression: &str) {
        let limit = Instant::now() + TIMEOUT;
        while self.run(&format!("return {expression}")) != true {
            assert!(Instant::now() < limit, "time-out: {expression}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a script and returns its result.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Returns the new entries of the browser's log.
    pub(crate) fn complaints(&self) -> Vec<String> {
        // The browser's own first page complains on a slow machine, and without network.
        let of_browser = |it: &String| it.starts_with("chrome://");
        self.log("browser").into_iter().filter(|it| !of_browser(it)).collect()
    }

    /// Returns the URLs of new requests, including files.
    pub(crate) fn requests(&self) -> Vec<String> {
        let events = self.log("performance").into_iter();
        let events = events.map(|event| serde_json::from_str(&event).expect("JSON"));
        let asked = |event: Value| {
            let is_request = event["message"]["method"] == "Network.requestWillBeSent";
            let address = event["message"]["params"]["request"]["url"].as_str()?;
            is_request.then(|| address.to_owned())
        };
        events.filter_map(asked).collect()
    }

    fn log(&self, name: &str) -> Vec<String> {
        let log = self.command("se/log", &json!({ "type": name }));
        let entries = log.as_array().expect("a list").iter();
        entries.filter_map(|entry| entry["message"].as_str().map(str::to_owned)).collect()
    }

    fn devtools(&self, name: &str, parameters: Value) {
        self.command("goog/cdp/execute", &json!({ "cmd": name, "params": parameters }));
    }

    fn command(&self, name: &str, parameters: &Value) -> Value {
        self.ask("POST", &format!("/session/{}/{name}", self.session), parameters)
    }

    /// Sends a command and returns its result. Panics on an error.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, mut answer) = self.exchange(method, path, body).expect("chromedriver answers");
        assert_eq!(status, 200, "{method} {path}: {}", answer["value"]["message"]);
        answer["value"].take()
    }

    fn exchange(&self, method: &str, path: &str, body: &Value) -> std::io::Result<(u16, Value)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let body = body.to_string();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let (mut line, mut status, mut length) = (String::new(), 0, 0);
        while reader.read_line(&mut line)? > 0 && !line.trim().is_empty() {
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        Ok((status, serde_json::from_slice(&answer)?))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser may have ended already.
        let _ = self.exchange("DELETE", &format!("/session/{}", self.session), &json!({}));
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}

fn installed(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Starts a chromedriver, and returns its port.
///
/// It chooses a port that is free with IPv6, and ends if the port is in use with IPv4. Another one is started then.
fn driver(program: &Path) -> (Child, u16) {
    const MANY: usize = 30;
    for _ in 0..MANY {
        let mut driver = Command::new(program)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        match port(&mut driver) {
            Some(port) => return (driver, port),
            None => drop(driver.wait().expect("it ends")),
        }
    }
    panic!("no chromedriver started");
}

/// Reads the port from `ChromeDriver was started successfully on port 41235.` `None` if it ends.
fn port(driver: &mut Child) -> Option<u16> {
    let lines = BufReader::new(driver.stdout.take().expect("it is piped")).lines();
    let mut lines = lines.map_while(Result::ok);
    let line = lines.find(|line| line.contains("successfully on port"))?;
    line.trim_end_matches('.').rsplit(' ').next()?.parse().ok()
}
