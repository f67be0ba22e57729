//! Text of many kinds, as tools and people bring it: from this repository, written down here, or made from a seed.

use super::rand_like::Rng;
use std::fmt::Write as _;
use std::path::Path;

/// Kinds that people and models also talk in.
pub(crate) const LANGUAGES: [&str; 6] = ["English", "Chinese", "Japanese", "Korean", "Russian", "German"];

const CHINESE: &str = "上下文窗口接近上限时，较早的对话会被压缩成摘要，最近的部分保持原样。请先阅读错误信息，再修改函数的实现，最后运行测试。\
如果文件不存在，程序应当给出清楚的提示，而不是直接退出。这个模块负责把用户输入的命令解析成一棵语法树，然后交给执行器处理。\
我在本地复现了这个问题：并发写入同一个缓存目录时，偶尔会读到只写了一半的文件。建议先写到临时文件，再用原子改名替换。\n";
const JAPANESE: &str = "この関数は設定ファイルを読み込み、値が見つからない場合は既定値を返します。テストが失敗した原因を調べてから修正してください。\
エラーメッセージには、何が起きたのか、なぜ起きたのか、次に何をすればよいのかを書きます。キャッシュの有効期限が切れたときは、\
サーバーに問い合わせ直してから画面を更新する必要があります。変更を保存する前に、差分を確認してもらえると助かります。\n";
const KOREAN: &str = "이 함수는 파일을 읽고 줄 단위로 나눈 다음 결과를 돌려줍니다. 오류가 발생하면 원인과 해결 방법을 함께 알려 주세요. \
테스트를 먼저 작성하고 나서 구현을 고치는 편이 안전합니다. 설정 값이 비어 있으면 기본값을 사용하도록 바꾸었습니다.\n";
const RUSSIAN: &str = "Эта функция читает файл построчно и возвращает список ошибок вместе с номерами строк. Если соединение прервалось, \
запрос повторяется не более шести раз, после чего пользователь видит понятное сообщение. Сначала нужно воспроизвести ошибку в тесте.\n";
const GERMAN: &str = "Die Funktion liest die Einstellungen aus mehreren Dateien, prüft jede für sich und meldet alle Fehler auf einmal. \
Wenn die Verbindung während einer Übertragung abbricht, bleibt der bisher empfangene Text erhalten und wird gekennzeichnet. \
Bitte ändere zuerst die Schnittstelle, danach die drei Aufrufstellen, und lass zum Schluss alle Prüfungen laufen.\n";

const JAVASCRIPT: &str = r##"import { readFile } from "node:fs/promises";

export async function loadRecords(path, { limit = 100, strict = false } = {}) {
  const text = await readFile(path, "utf8");
  const records = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (!line.trim() || line.startsWith("#")) continue;
    try {
      records.push({ ...JSON.parse(line), lineNumber: index + 1 });
    } catch (error) {
      if (strict) throw new Error(`line ${index + 1}: ${error.message}`);
      console.warn("skipped", index + 1, error.message);
    }
    if (records.length >= limit) break;
  }
  return records.sort((a, b) => b.createdAt - a.createdAt);
}

const button = document.querySelector("#submit");
button?.addEventListener("click", async (event) => {
  event.preventDefault();
  const response = await fetch("/api/v2/orders", { method: "POST", body: new FormData(event.target.form) });
  if (!response.ok) return showError(await response.text());
  window.location.assign(`/orders/${(await response.json()).id}`);
});
"##;
const C: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include "ring.h"

/* Moves at most `want` bytes into `out`; returns how many were there. */
size_t ring_read(struct ring *r, uint8_t *out, size_t want)
{
	size_t have = r->head - r->tail;
	size_t n = want < have ? want : have;

	for (size_t i = 0; i < n; i++)
		out[i] = r->data[(r->tail + i) & (RING_SIZE - 1)];
	r->tail += n;
	if (r->flags & RING_WAITING && have - n < RING_LOW_MARK) {
		r->flags &= ~RING_WAITING;
		pthread_cond_signal(&r->room);
	}
	return n;
}

static int parse_header(const char *buf, size_t len, struct header *h)
{
	if (len < HEADER_LEN || memcmp(buf, "RNG1", 4) != 0)
		return -EINVAL;
	h->version = buf[4] << 8 | buf[5];
	return h->version > MAX_VERSION ? -ENOTSUP : 0;
}
"#;
const GO: &str = r#"package store

// Get returns the newest value of key, or ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if v, ok := s.recent[key]; ok {
		return v.bytes, nil
	}
	for i := len(s.tables) - 1; i >= 0; i-- {
		v, err := s.tables[i].lookup(ctx, []byte(key))
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("table %d: %w", s.tables[i].id, err)
		}
		return v, nil
	}
	return nil, ErrNotFound
}
"#;
const MARKUP: &str = r#"<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Orders</title>
<style>
.card { display: grid; grid-template-columns: 12rem 1fr; gap: 0.5rem 1rem; border: 1px solid #d0d7de; }
.card > header h2 { font-size: 1.125rem; margin: 0 0 4px; color: rgba(31, 35, 40, 0.87); }
@media (max-width: 640px) { .card { grid-template-columns: 1fr; padding: 8px 12px; } }
</style></head>
<body><main id="app" class="container mx-auto px-4"><div class="card" data-order-id="48213"><header>
<h2>Order 48213</h2></header><p>Paid with card, <a href="/orders/48213/invoice.pdf?download=1">invoice</a></p></div></main></body>
</html>
"#;
const MINIFIED: &str = r#"!function(e,t){"object"==typeof exports?module.exports=t():e.Q=t()}(this,function(){var e={},t=Array.isArray;function n(e,t){for(var n=0,r=e.length;n<r;n++)if(!1===t(e[n],n))break;return e}function r(e){return null==e?"":(""+e).replace(/[&<>"']/g,function(e){return"&#"+e.charCodeAt(0)+";"})}e.each=n,e.map=function(e,t){var r=[];return n(e,function(e,n){r.push(t(e,n))}),r},e.on=function(t,n,o){var i=e._h||(e._h={});return(i[t]=i[t]||[]).push({fn:n,ctx:o||null}),this},e.emit=function(t){var r=[].slice.call(arguments,1);return n((e._h||{})[t]||[],function(e){e.fn.apply(e.ctx,r)}),this},e.html=r,e.noop=function(){};return e});"#;

/// All kinds, each long enough to take pieces of.
pub(crate) fn all(rng: &mut Rng) -> Vec<(&'static str, String)> {
    let files = |paths: &[&str]| -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        paths.iter().map(|path| std::fs::read_to_string(root.join(path)).unwrap()).collect()
    };
    let code = ["crates/agent/src/machine.rs", "crates/model/src/assemble.rs", "crates/session/src/blobs.rs"];
    let prose = ["docs/context-engine.md", "docs/models.md", "docs/agent-loop.md", "README.md"];
    vec![
        ("Rust", files(&code)),
        ("English", files(&prose)),
        ("Python", files(&["benches/process.py", "benches/search.py"])),
        ("JavaScript", JAVASCRIPT.repeat(12)),
        ("C", C.repeat(12)),
        ("Go", GO.repeat(16)),
        ("HTML and CSS", MARKUP.repeat(12)),
        ("minified", MINIFIED.repeat(16)),
        ("TOML", files(&["Cargo.lock"])[..60_000].to_owned()),
        ("JSON", files(&["crates/model/src/catalog.json", "docs/config.schema.json"])),
        ("Chinese", CHINESE.repeat(24)),
        ("Japanese", JAPANESE.repeat(24)),
        ("Korean", KOREAN.repeat(40)),
        ("Russian", RUSSIAN.repeat(24)),
        ("German", GERMAN.repeat(24)),
        ("build log", many(400, |n| build_log(n, rng))),
        ("access log", many(200, |_| access_log(rng))),
        ("JSON log", many(200, |_| json_log(rng))),
        ("hex dump", many(400, |n| hex_dump(n, rng))),
        ("checksums", many(300, |n| format!("{}  src/part_{n}/mod.rs\n", hex(rng, 64)))),
        ("base64", many(300, |_| base64(rng, 76) + "\n")),
        ("one base64", base64(rng, 24_000)),
        ("table", many(500, |n| table(n, rng))),
        ("listing", many(400, |n| listing(n, rng))),
    ]
}

fn many(lines: usize, mut line: impl FnMut(usize) -> String) -> String {
    (0..lines).map(&mut line).collect()
}

fn letters(rng: &mut Rng, of: &[u8], count: usize) -> String {
    (0..count).map(|_| char::from(of[rng.below(of.len())])).collect()
}

fn hex(rng: &mut Rng, count: usize) -> String {
    letters(rng, b"0123456789abcdef", count)
}

fn base64(rng: &mut Rng, count: usize) -> String {
    letters(rng, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", count)
}

fn clock(rng: &mut Rng) -> String {
    format!("{:02}:{:02}:{:02}.{:03}", rng.below(24), rng.below(60), rng.below(60), rng.below(1_000))
}

fn build_log(n: usize, rng: &mut Rng) -> String {
    let file = ["src/lib.rs", "src/context/view.rs", "tests/driver.rs"][n % 3];
    let (line, address) = (rng.below(900), hex(rng, 8));
    format!("2026-11-20T{}Z  WARN  {file}:{line}: unused `x{n}` (0x{address})\n", clock(rng))
}

fn access_log(rng: &mut Rng) -> String {
    let address: Vec<String> = (0..4).map(|_| rng.below(256).to_string()).collect();
    let path = ["/api/v2/orders", "/static/app.js", "/users/profile", "/health"][rng.below(4)];
    format!(
        "{} - - [20/Nov/2026:{} +0000] \"GET {path}?id={} HTTP/1.1\" {} {} \"-\" \"curl/8.{}.0\"\n",
        address.join("."),
        &clock(rng)[..8],
        rng.below(1_000_000),
        [200, 304, 404, 500][rng.below(4)],
        rng.below(100_000),
        rng.below(12),
    )
}

fn json_log(rng: &mut Rng) -> String {
    let message = ["request finished", "connection closed by peer", "retrying", "cache miss"][rng.below(4)];
    format!(
        "{{\"ts\":\"2026-11-20T{}Z\",\"level\":\"info\",\"trace\":\"{}\",\"span\":\"{}\",\"msg\":\"{message}\",\"ms\":{}.{}}}\n",
        clock(rng),
        hex(rng, 32),
        hex(rng, 16),
        rng.below(500),
        rng.below(1_000),
    )
}

fn hex_dump(n: usize, rng: &mut Rng) -> String {
    let mut line = format!("{:08x} ", n * 16);
    for at in 0..16 {
        let _ = write!(line, "{}{}", if at == 8 { "  " } else { " " }, hex(rng, 2));
    }
    let shown = letters(rng, b"......ELF@./lib64gnu", 16);
    format!("{line}  |{shown}|\n")
}

fn table(n: usize, rng: &mut Rng) -> String {
    let name = ["alpha", "beta", "gamma", "delta"][rng.below(4)];
    let (a, b, c) = (rng.below(100_000), rng.below(1_000), rng.below(10_000));
    format!("{n},{name},{a}.{b:03},-{c},2026-{:02}-{:02}\n", rng.below(12) + 1, rng.below(28) + 1)
}

fn listing(n: usize, rng: &mut Rng) -> String {
    let (size, time) = (rng.below(1_000_000), clock(rng));
    format!(
        "-rw-r--r-- 1 build build {size:>8} 2026-11-{:02} {} part_{n:04}.o\n",
        rng.below(30) + 1,
        &time[..5]
    )
}
