# A private apt: own lists, cache and state under $BUILD_DIR/apt, so that nothing is
# installed and nothing under /etc or /var changes. Sourced after lib.sh.
#
# The mirror is whatever this machine already uses: it is read from the machine's own
# apt sources at run time, and no host name is written in this repository.

APT_DIR=$BUILD_DIR/apt
APT_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# Prints the base address of the machine's Debian archive (not the security archive).
machine_mirror() {
    python3 - <<'PY'
import glob, re, sys

def deb822(text):
    for block in re.split(r"\n\s*\n", text):
        lines = [l for l in block.splitlines() if not l.startswith("#")]
        fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*)$", "\n".join(lines), re.M))
        if "deb" in fields.get("Types", "").split() and fields.get("Enabled", "yes") != "no":
            for uri in fields.get("URIs", "").split():
                yield uri, fields.get("Suites", "").split()

def one_line(text):
    for line in text.splitlines():
        m = re.match(r"deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)", line)
        if m:
            yield m.group(1), [m.group(2)]

found = []
for path in sorted(glob.glob("/etc/apt/sources.list.d/*.sources")):
    found += deb822(open(path).read())
for path in ["/etc/apt/sources.list", *sorted(glob.glob("/etc/apt/sources.list.d/*.list"))]:
    try:
        found += one_line(open(path).read())
    except FileNotFoundError:
        pass
# The suite named exactly "bookworm" belongs to the main archive, which also holds trixie.
for uri, suites in found:
    if "bookworm" in suites or "stable" in suites or "oldstable" in suites:
        print(uri.rstrip("/"))
        sys.exit()
sys.exit("no Debian 12 (bookworm) archive in this machine's apt sources")
PY
}

# Writes the private configuration; the caller then runs `private_apt …`.
setup_private_apt() {
    local mirror
    mirror=$(machine_mirror) || die "cannot find a Debian mirror: this recipe needs the apt sources of a Debian 12 machine"
    mkdir -p "$APT_DIR"/{lists/partial,archives/partial,state,etc}
    : >"$APT_DIR/state/status"
    {
        # The compiler for this machine is bookworm's. wasi-libc is architecture-independent,
        # and trixie's matches clang 19. Sources come from forky: the newest that is served.
        printf 'deb [signed-by=%s] %s bookworm main\n' "$APT_KEYRING" "$mirror"
        printf 'deb [signed-by=%s] %s trixie main\n' "$APT_KEYRING" "$mirror"
        printf 'deb-src [signed-by=%s] %s forky main\n' "$APT_KEYRING" "$mirror"
    } >"$APT_DIR/etc/sources.list"
    {
        # Keep the machine's own network settings (proxy, validity, time-outs) but none of
        # its hooks: Docker images carry hooks that delete files under /var/cache/apt.
        apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets' || true
        cat <<CONF
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$APT_DIR/etc/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$APT_DIR/state";
Dir::State::lists "$APT_DIR/lists";
Dir::State::status "$APT_DIR/state/status";
Dir::Cache "$APT_DIR";
Dir::Cache::archives "$APT_DIR/archives";
Acquire::Languages "none";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "";
CONF
    } >"$APT_DIR/etc/apt.conf"
}

private_apt() {
    local tool=$1
    shift
    APT_CONFIG=$APT_DIR/etc/apt.conf "$tool" "$@"
}
