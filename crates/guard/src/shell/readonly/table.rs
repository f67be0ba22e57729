//! The table of commands and options that are known to be harmless. Contains only data.

/// The meaning of the words that are no options.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Args {
    /// Files whose content is read.
    Files,
    /// Files of which only names and attributes are shown.
    Names,
    /// A search pattern, then files whose content is read.
    Pattern,
    /// Text that is printed or tested, no files.
    Text,
    /// At most this many files whose content is read. A further one would be written.
    UpTo(usize),
    None,
}

pub(super) struct Entry {
    /// The implementation and version with which each option was tried under strace. `tests/disk/others.rs` tries other
    /// implementations: BusyBox, toybox and uutils.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for readers of the table; a test checks that it is there")
    )]
    pub tried: &'static str,
    pub names: &'static str,
    /// Option letters without a value.
    pub flags: &'static str,
    /// Option letters with a value.
    pub valued: &'static str,
    /// Long options. An option that ends in `=` takes a value, attached or as the next word.
    pub long: &'static str,
    pub args: Args,
    /// True if no option of the program does harm, so that a file name pattern may match a name that looks like an option.
    pub tame: bool,
}

/// Options of `xxd` without a value. Each word is one option (letters cannot be joined), and a second file is written. Tried
/// with xxd 2022-01-14; vim 9.1 and BusyBox have the same names.
pub(super) const XXD_ALONE: &[&str] = &[
    "-a",
    "-autoskip",
    "-b",
    "-bits",
    "-C",
    "-e",
    "-E",
    "-i",
    "-include",
    "-p",
    "-ps",
    "-plain",
    "-postscript",
    "-u",
    "-upper",
];
/// Options of `xxd` that take a number.
pub(super) const XXD_VALUED: &[&str] =
    &["-c", "-cols", "-g", "-groupsize", "-l", "-len", "-s", "-seek", "-o"];

const COREUTILS: &str = "GNU coreutils 9.1";
const DIFFUTILS: &str = "GNU diffutils 3.8";
const PROCPS: &str = "procps-ng 4.0.2";
const UTIL_LINUX: &str = "util-linux 2.38.1";

const fn entry(
    tried: &'static str,
    names: &'static str,
    flags: &'static str,
    valued: &'static str,
    long: &'static str,
    args: Args,
    tame: bool,
) -> Entry {
    Entry { tried, names, flags, valued, long, args, tame }
}

const GREP_LONG: &str = "after-context= before-context= binary-files= byte-offset color color= colour= context= count \
    exclude= exclude-dir= extended-regexp files-with-matches files-without-match fixed-strings ignore-case include= \
    initial-tab invert-match line-buffered line-number line-regexp max-count= no-filename no-messages null \
    only-matching perl-regexp quiet recursive regexp= silent text with-filename word-regexp basic-regexp";

const RG_LONG: &str = "after-context= before-context= binary block-buffered byte-offset case-sensitive color= colors= \
    column context= context-separator= count count-matches crlf debug encoding= files files-with-matches \
    files-without-match fixed-strings glob= glob-case-insensitive heading hidden iglob= ignore-case invert-match json \
    line-buffered line-number line-regexp max-columns= max-columns-preview max-count= max-depth= max-filesize= mmap \
    multiline multiline-dotall no-config no-filename no-heading no-ignore no-ignore-dot no-ignore-parent \
    no-ignore-vcs no-line-number no-messages null one-file-system only-matching passthru pcre2 pretty quiet regexp= \
    replace= smart-case sort= sortr= stats text threads= trim type= type-list type-not= unrestricted version vimgrep \
    with-filename word-regexp";

pub(super) const TABLE: &[Entry] = &[
    entry(
        COREUTILS,
        "cat",
        "AbeEnstTuv",
        "",
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
        Args::Files,
        true,
    ),
    entry(COREUTILS, "tac", "br", "s", "before regex separator=", Args::Files, true),
    entry(
        COREUTILS,
        "nl",
        "p",
        "bdfhilnsvw",
        "body-numbering= number-format= number-width= starting-line-number= number-separator=",
        Args::Files,
        true,
    ),
    entry(
        COREUTILS,
        "head tail",
        "qvz",
        "nc",
        "lines= bytes= quiet silent verbose zero-terminated",
        Args::Files,
        true,
    ),
    entry(COREUTILS, "wc", "clmwL", "", "bytes chars lines words max-line-length total=", Args::Files, true),
    entry(
        COREUTILS,
        "ls dir vdir",
        "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        "ITw",
        "all almost-all author block-size= classify color color= dereference directory escape file-type format= \
         full-time group-directories-first hide= human-readable hyperlink ignore= indicator-style= inode no-group \
         numeric-uid-gid quote-name recursive reverse si size sort= time= time-style= width= zero",
        Args::Names,
        true,
    ),
    entry(COREUTILS, "stat", "Lft", "c", "dereference file-system format= printf= terse", Args::Names, true),
    entry(
        COREUTILS,
        "du",
        "abchHklmsSxDP0",
        "dBt",
        "all apparent-size block-size= bytes exclude= human-readable inodes max-depth= one-file-system \
         separate-dirs si summarize threshold= time time= total",
        Args::Names,
        true,
    ),
    entry(
        COREUTILS,
        "df",
        "ahHiklPT",
        "Btx",
        "all block-size= human-readable inodes local output output= portability print-type si total type=",
        Args::Names,
        true,
    ),
    entry(COREUTILS, "basename dirname", "az", "s", "multiple suffix= zero", Args::Text, true),
    entry(
        COREUTILS,
        "realpath readlink",
        "eflmnqsvzLP",
        "",
        "canonicalize canonicalize-existing canonicalize-missing no-newline relative-to= relative-base= zero strip",
        Args::Names,
        true,
    ),
    entry(UTIL_LINUX, "rev", "", "", "", Args::Files, true),
    entry(COREUTILS, "fold fmt", "bscu", "w", "bytes spaces width=", Args::Files, true),
    entry(COREUTILS, "expand unexpand", "ai", "t", "all first-only initial tabs=", Args::Files, true),
    entry(
        COREUTILS,
        "cut",
        "nsz",
        "bcdf",
        "bytes= characters= complement delimiter= fields= only-delimited output-delimiter= zero-terminated",
        Args::Files,
        true,
    ),
    entry(COREUTILS, "paste", "sz", "d", "delimiters= serial zero-terminated", Args::Files, true),
    entry(
        UTIL_LINUX,
        "column",
        "tx",
        "coNRs",
        "table separator= output-separator= table-columns=",
        Args::Files,
        true,
    ),
    entry(
        COREUTILS,
        "comm",
        "123iz",
        "",
        "check-order nocheck-order output-delimiter= total",
        Args::Files,
        true,
    ),
    entry(COREUTILS, "join", "iz", "aejtv12o", "ignore-case header", Args::Files, true),
    entry(
        DIFFUTILS,
        "cmp",
        "bls",
        "in",
        "print-bytes verbose quiet silent bytes= ignore-initial=",
        Args::Files,
        true,
    ),
    entry(
        DIFFUTILS,
        "diff",
        "abBcdeEiNnpqstTuwy",
        "UCIWx",
        "brief color color= context context= exclude= ignore-all-space ignore-blank-lines ignore-case \
         ignore-space-change ignore-trailing-space label= minimal new-file normal report-identical-files \
         side-by-side speed-large-files strip-trailing-cr suppress-common-lines text unified unified= width=",
        Args::Files,
        false,
    ),
    entry(
        COREUTILS,
        "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum shasum",
        "btz",
        "a",
        "binary text tag zero",
        Args::Files,
        true,
    ),
    entry("binutils 2.40", "strings", "afw", "neT", "all bytes= encoding= radix=", Args::Files, false),
    entry(
        COREUTILS,
        "od",
        "abcdfhilosxv",
        "AjNtw",
        "address-radix= format= read-bytes= skip-bytes= width=",
        Args::Files,
        true,
    ),
    entry(UTIL_LINUX, "hexdump hd", "bcCdovx", "ns", "", Args::Files, false),
    entry(COREUTILS, "tr", "cCdst", "", "complement delete squeeze-repeats truncate-set1", Args::Text, true),
    entry(COREUTILS, "seq", "w", "sf", "separator= format= equal-width", Args::Text, true),
    entry(COREUTILS, "sleep", "", "", "", Args::Text, true),
    entry(COREUTILS, "nproc", "", "", "all ignore=", Args::None, true),
    entry(COREUTILS, "arch logname whoami users", "", "", "", Args::None, true),
    entry(COREUTILS, "tty", "s", "", "quiet silent", Args::None, true),
    entry(COREUTILS, "who", "abdHlmpqrstu", "", "all boot count heading", Args::None, true),
    entry(COREUTILS, "groups", "", "", "", Args::Text, true),
    entry(PROCPS, "uptime", "ps", "", "pretty since", Args::None, true),
    entry(UTIL_LINUX, "lscpu", "aJ", "", "all json", Args::None, true),
    entry("glibc 2.36", "getconf", "a", "", "", Args::Text, true),
    entry(
        COREUTILS,
        "uname",
        "asnrvmpio",
        "",
        "all kernel-name nodename kernel-release machine operating-system",
        Args::None,
        true,
    ),
    entry(COREUTILS, "id", "gGnruzZ", "", "user group groups name real", Args::Text, true),
    entry("hostname 3.23", "hostname", "sI", "", "short", Args::None, true),
    entry(PROCPS, "free", "bkmghtlsw", "", "human mega giga total wide", Args::None, true),
    entry(COREUTILS, "pwd", "LP", "", "", Args::None, true),
    entry("debianutils 5.7", "which type", "apPtf", "", "all", Args::Text, true),
    entry(
        "file 5.44",
        "file",
        "bhiILkNr0",
        "F",
        "brief mime mime-type mime-encoding dereference no-dereference keep-going separator=",
        Args::Files,
        false,
    ),
    entry(
        "tree 2.1.0",
        "tree",
        "adfFipsughDJNnCrtvSx",
        "LPI",
        "noreport dirsfirst gitignore prune filelimit= charset= du si inodes matchdirs ignore-case",
        Args::Names,
        false,
    ),
    entry(
        COREUTILS,
        "sort",
        "bdfghiMnRrVcCmsuz",
        "ktS",
        "check dictionary-order field-separator= general-numeric-sort human-numeric-sort ignore-case \
         ignore-leading-blanks key= merge month-sort numeric-sort parallel= random-sort reverse sort= stable unique \
         version-sort zero-terminated",
        Args::Files,
        false,
    ),
    entry(
        COREUTILS,
        "uniq",
        "cdDiuz",
        "fsw",
        "all-repeated count ignore-case repeated skip-chars= skip-fields= unique zero-terminated check-chars=",
        Args::UpTo(1),
        false,
    ),
    entry(COREUTILS, "tsort", "", "", "", Args::Files, true),
    entry(
        "GNU grep 3.8",
        "grep egrep fgrep",
        "abcEFGhHiIlLnoPqrsTuUvwxyzZ",
        "ABCem",
        GREP_LONG,
        Args::Pattern,
        false,
    ),
    entry(
        "ripgrep 13.0.0",
        "rg",
        "abcFhHiIlnNopPqsSuUvVwx0.",
        "ABCdeEgjmMrtT",
        RG_LONG,
        Args::Pattern,
        false,
    ),
    entry(
        "fd 8.6.0",
        "fd fdfind",
        "0Hgipsu1aF",
        "cdEejStj",
        "absolute-path case-sensitive changed-before= changed-within= color= exact-depth= exclude= \
         extension= fixed-strings full-path glob hidden ignore-case max-depth= max-results= min-depth= no-ignore \
         no-ignore-vcs print0 prune quiet regex size= type= unrestricted version",
        Args::Pattern,
        false,
    ),
    entry(
        "iproute2 6.1.0",
        "ss",
        "46aeHilmnopstuwx",
        "",
        "all listening numeric processes tcp udp unix summary",
        Args::None,
        true,
    ),
    entry(PROCPS, "ps", "AaefFjlxH", "opuCt", "forest no-headers sort= format= pid=", Args::None, true),
];

/// Programs whose `--version` may run: neither they nor a launcher in front of them obeys files of the project. Not `java`,
/// which keeps a file about itself in the temporary folder, and not `kubectl`, which looks for plugins.
pub(super) const VERSIONED: &[&str] = &[
    "python",
    "python3",
    "node",
    "ruby",
    "perl",
    "gcc",
    "g++",
    "clang",
    "cc",
    "make",
    "cmake",
    "ninja",
    "git",
    "rg",
    "jq",
    "docker",
    "psql",
    "bash",
    "php",
    "lua",
    "sqlite3",
    "curl",
    "tar",
    "sed",
    "awk",
    "grep",
    "find",
    "ls",
    "openssl",
    "ffmpeg",
    "fd",
    "gh",
    "pkg-config",
    "ld",
    "gdb",
    "vim",
    "tmux",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_names_the_version_that_was_tried() {
        for entry in TABLE {
            let version = entry.tried.rsplit(' ').next().unwrap_or_default();
            let numbers = version.split('.').filter(|part| part.parse::<u32>().is_ok()).count();
            assert!(numbers >= 2, "{}: {}", entry.names, entry.tried);
        }
    }
}
