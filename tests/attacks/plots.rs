//! matplotlib and Pillow in the data image: fonts, pictures and figures that mean harm. Behind them
//! is C++ with exceptions, FreeType, HarfBuzz and qhull.

use std::sync::Once;
use std::time::Duration;

use belljar::{ImageChoice, SandboxResult, Status};
use serde_json::json;
use support::{Cells, Expect, Jar, attack, attacked, exclusive, permitted};

const IMPORTS: &str = "import gc, io, struct, warnings, zlib
import matplotlib.pyplot as plt, matplotlib.tri as tri, kiwisolver as kiwi, numpy as np
from matplotlib import cbook, font_manager
from matplotlib.artist import Artist
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageFont
from pathlib import Path
";

fn jar() -> Jar {
    static LOADED: Once = Once::new();
    let jar = Jar::new().with(|layer| layer.image(ImageChoice::Data));
    // Loaded once and kept: it is not to be taken for something that an attack has left.
    let _alone = exclusive();
    LOADED.call_once(|| drop(jar.run(IMPORTS)));
    jar
}

#[track_caller]
fn attack_with(jar: &Jar, code: &str) -> SandboxResult {
    attack(jar, &format!("{IMPORTS}{code}"))
}

/// The permitted twin shows one figure.
#[track_caller]
fn draws(code: &str) {
    let result = permitted(&jar(), &format!("{IMPORTS}{code}\nplt.show()"));
    result.printed("");
    let value = result.result.expect("a figure");
    assert!(value.mime.contains_key("image/png") && value.mime.contains_key("image/svg+xml"));
}

#[test]
fn fonts_that_lie() {
    let unknown = "FT_Open_Face (ft2font.cpp line 200) failed with error 0x02: unknown file format";
    let broken =
        "FT_Open_Face (ft2font.cpp line 200) failed with error 0x55: invalid stream operation";
    let liar = "class Liar:
    def seek(self, at): return 0
    def read(self, n): return b'x' * 2 * n
FT2Font(Liar())";
    let cut =
        "FT2Font(io.BytesIO(cbook._open(font_manager.findfont('DejaVu Sans'), 'rb').read(5000)))";
    let own = "Path('own.ttf').write_bytes(b'\\0\\1\\0\\0' + b'\\xff' * 1000)";
    let opened = format!("{own}\nFT2Font('own.ttf')");
    let drawn = format!("{own}\nplt.figtext(0, 0, 'x', font=Path('own.ttf'))");
    for (code, message) in [
        ("FT2Font(io.BytesIO(b'garbage' * 100))", unknown),
        (opened.as_str(), unknown),
        (drawn.as_str(), unknown),
        (cut, broken),
        (liar, broken),
    ] {
        attack_with(&jar(), code).raised("RuntimeError", message);
    }
    attack_with(&jar(), "FT2Font(5)").raised(
        "TypeError",
        "First argument must be a path to a font file or a binary-mode file object",
    );
    attack_with(&jar(), "ImageFont.truetype(io.BytesIO(b'garbage'))")
        .raised("OSError", "invalid stream operation");
    draws("plt.figtext(.5, .5, 'Text', font='DejaVu Serif')");
}

#[test]
fn fonts_with_wrong_bytes() {
    let code = "warnings.simplefilter('ignore')
good = cbook._open(font_manager.findfont('DejaVu Sans'), 'rb').read()
kinds = set()
for seed in range(200):
    random, data = np.random.default_rng(seed), np.frombuffer(good, 'u1').copy()
    # Every other time only the tables that say what is where.
    data[random.integers(len(data) if seed % 2 else 4000, size=200)] = random.integers(256, size=200)
    try:
        font = FT2Font(io.BytesIO(data.tobytes()))
        font.set_size(12, 72)
        font.set_text('Hello, World! fi')
        font.draw_glyphs_to_bitmap()
        for char in range(32, 300): font.load_char(char)
    except Exception: kinds.add('refused')
    else: kinds.add('drawn')
print(gc.collect() >= 0, 'refused' in kinds)";
    let result = attack_with(&jar(), code);
    result.printed("True True\n");
    draws("plt.title('Größe')");
}

#[test]
fn figures_of_enormous_size() {
    for (code, name, message) in [
        (
            "plt.figure(figsize=(1000, 1000), dpi=1000); plt.plot([1])",
            "ValueError",
            "Image size of 1000000x1000000 pixels at 1000 dpi is too large.",
        ),
        // The hatches alone would be 65536 x 65536 pixels, whose bytes are 0 when counted in 32 bits.
        (
            "plt.figure(figsize=(.01, .01), dpi=65536); plt.bar([1], [1], hatch='/')",
            "ValueError",
            "Image size of 655x655 pixels at 65536 dpi is too large.",
        ),
        (
            "plt.figure(figsize=(5, 5)); plt.text(0, 1e7, 'far away')",
            "ValueError",
            "Image size of 450x3850000054 pixels is too large. It must be less than 2^23 in each direction.",
        ),
        (
            "plt.figtext(0, 0, 'x', fontsize=1e6)",
            "RuntimeError",
            "FT_Set_Char_Size (ft2font.cpp line 250) failed with error 0x17: invalid pixel size",
        ),
        (
            "plt.figure(figsize=(-1, 5))",
            "ValueError",
            "figure size must be positive finite not (-1, 5)",
        ),
        (
            "from matplotlib.transforms import Bbox\n\
             plt.gcf().canvas.copy_from_bbox(Bbox([[0, 0], [65536, 65536]]))",
            "ValueError",
            "The region is too large.",
        ),
    ] {
        attack_with(&jar(), code).raised(name, message);
    }
    attack_with(&jar(), "plt.figure(figsize=(1e9, 1e9)); plt.plot([1])").ended(Status::Error, 1);
    attack_with(&jar(), "plt.figure(figsize=(200, 200)); plt.plot([1])")
        .ended(Status::OutOfMemory, -1);
    attack_with(&jar(), "plt.subplots(); plt.savefig('x.png', dpi=2000)")
        .ended(Status::OutOfMemory, -1);
    attacked(&jar(), "a large figure in a session", || {
        let jar = jar();
        let mut session = jar.session();
        session.run(IMPORTS).kept(Status::Ok);
        session
            .run("plt.figure(figsize=(200, 200)); plt.plot([1])")
            .rolled_back(Status::OutOfMemory);
        session.run("plt.figure(figsize=(900, 900), dpi=900); plt.plot([1])").kept(Status::Error);
        session.run("plt.get_fignums()").gave(json!([]));
    });
    draws("plt.figure(figsize=(20, 10)); plt.plot([1, 2])");
}

#[test]
fn pictures_that_lie() {
    let bomb = "def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
def bomb(width, height):
    head = chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0))
    body = chunk(b'IDAT', zlib.compress(bytes(1_000_000)))
    return io.BytesIO(b'\\x89PNG\\r\\n\\x1a\\n' + head + body + chunk(b'IEND', b''))
";
    attack_with(&jar(), &format!("{bomb}Image.open(bomb(50000, 50000))")).raised(
        "DecompressionBombError",
        "Image size (2500000000 pixels) exceeds limit of 178956970 pixels, could be decompression bomb DOS attack.",
    );
    attack_with(&jar(), &format!("{bomb}Image.open(bomb(1000, 1000)).load()"))
        .raised("OSError", "image file is truncated (0 bytes not processed)");
    for code in [
        "Image.MAX_IMAGE_PIXELS = None; Image.open(bomb(60000, 60000)).load()",
        "Image.MAX_IMAGE_PIXELS = None; plt.imread(bomb(60000, 60000))",
        "Image.new('RGBA', (100_000, 100_000))",
    ] {
        attack_with(&jar(), &format!("{bomb}{code}")).ended(Status::OutOfMemory, -1);
    }
    // More than a 32-bit machine can address never gets as far as the limit.
    for code in [
        "Image.MAX_IMAGE_PIXELS = None; Image.open(bomb(2**31 - 1, 2**31 - 1)).load()",
        "Image.new('RGBA', (2**31 - 1, 1))",
    ] {
        attack_with(&jar(), &format!("{bomb}{code}")).raised("MemoryError", "");
    }
    let code = "noise = np.random.default_rng(1).integers(256, size=(99, 99), dtype='u1')
Image.fromarray(noise).save('whole.png')
data, names = Path('whole.png').read_bytes(), set()
for length in range(0, len(data), 97):
    try: Image.open(io.BytesIO(data[:length])).load()
    except Exception as error: names.add(type(error).__name__)
print(sorted(names), (np.asarray(Image.open('whole.png')) == noise).all())";
    attack_with(&jar(), code).printed("['OSError', 'UnidentifiedImageError'] True\n");
    // Its library leaves by longjmp where nothing else helps.
    let code = "random = np.random.default_rng(1)
noise = random.integers(256, size=(99, 99, 3), dtype='u1')
Image.fromarray(noise).save('whole.jpg', progressive=True)
data, names = Path('whole.jpg').read_bytes(), set()
for _ in range(300):
    torn = bytearray(data)
    for at in random.integers(len(data), size=3): torn[at] = random.integers(256)
    try: Image.open(io.BytesIO(torn)).load(); names.add('loaded')
    except Exception as error: names.add(type(error).__name__)
print(sorted(names), Image.open('whole.jpg').convert('L').size)";
    attack_with(&jar(), code).printed("['OSError', 'UnidentifiedImageError', 'loaded'] (99, 99)\n");
    draws("plt.imshow(Image.new('RGB', (9, 9), 'red'))");
}

#[test]
fn points_that_make_no_triangles() {
    let flat = "Error in qhull Delaunay triangulation calculation: singular input data (exitcode=2); use python verbose option (-v) to see original qhull error.";
    let bad = "Error in qhull Delaunay triangulation calculation: input inconsistency (exitcode=1); use python verbose option (-v) to see original qhull error.";
    for (code, name, message) in [
        ("[0, 1, 2, 3], [0, 1, 2, 3]", "RuntimeError", flat),
        ("[0, 1, np.nan], [0, 1, 2]", "RuntimeError", bad),
        ("[0, 1, 0, 1e308], [0, 0, 1, -1e308]", "RuntimeError", bad),
        (
            "[0, 0, 0], [0, 0, 0]",
            "ValueError",
            "x and y arrays must consist of at least 3 unique points",
        ),
        (
            "[0, 1, 1], [0, 0, 1], [[0, 1, 99]]",
            "ValueError",
            "triangles are indices into the points and must be in the range 0 <= i < 3 but found value 99",
        ),
    ] {
        attack_with(&jar(), &format!("tri.Triangulation({code})")).raised(name, message);
    }
    // Changed after they were checked: what is read is the guest's own memory, or a trap.
    let code = "t = tri.Triangulation([0, 1, 1], [0, 0, 1]); t.triangles[:] = 2**30
t.neighbors, t.edges, gc.collect()";
    assert_ne!(attack_with(&jar(), code).status(), Status::Timeout);
    draws("plt.tripcolor([0, 1, 1, 0], [0, 0, 1, 1], [1, 2, 3, 4])");
}

#[test]
fn exceptions_of_cpp_by_the_thousand() {
    let jar = jar().with(|layer| layer.memory_bytes(64_000_000));
    let code = "solver, a = kiwi.Solver(), kiwi.Variable('a')
solver.addConstraint(a >= 5)
def fails(what, *kinds):
    try: what()
    except kinds: return
    raise AssertionError
for _ in range(1000):
    fails(lambda: solver.addConstraint(a <= 4), kiwi.UnsatisfiableConstraint)
    fails(lambda: solver.removeConstraint(a >= 7), kiwi.UnknownConstraint)
    fails(lambda: solver.addEditVariable(a, 'required'), kiwi.BadRequiredStrength)
    fails(lambda: FT2Font(io.BytesIO(b'garbage')), RuntimeError)
    fails(lambda: tri.Triangulation([0, 1, 2], [0, 1, 2]), RuntimeError)
print('done')";
    attack_with(&jar, code).printed("done\n");
    // Without memory they raise, even where C++ code that catches lies below them.
    let code = "class Full:
    def __array__(self, *args, **named):
        held, size = [], 1 << 24
        while size >= 16:
            try: held.append(bytearray(size))
            except MemoryError: size //= 2
        solver, (a, b) = kiwi.Solver(), (kiwi.Variable(), kiwi.Variable())
        try:
            for j in range(100_000): solver.addConstraint(a * 1.5 + b >= j)
        finally: ends.append('finally')
ends = []
from matplotlib import _path
for _ in range(3):
    # It says that these are no points.
    try: _path.affine_transform(Full(), np.eye(3))
    except TypeError: pass
import sys; ends.append(sys._getframe().f_code.co_name)
print(ends)";
    attack_with(&jar, code).printed("['finally', 'finally', 'finally', '<module>']\n");
    // Cycles of the solver's own objects are collected as all others are.
    let code = "for _ in range(1000):
    v = kiwi.Variable('v', {}); c = (v + 1 <= 2 * v) | 'weak'; t = 2 * v
    v.setContext([v, c, t, c.expression()])
    del v, c, t
print(gc.collect() > 0)";
    attack_with(&jar, code).printed("True\n");
    draws("plt.subplots(2, 2, layout='constrained')");
}

#[test]
fn drawing_without_memory() {
    let jar = jar().with(|layer| layer.memory_bytes(64_000_000));
    let fill = "def fill(leave):
    held, size, free = [], 1 << 24, 0
    while size >= 1 << 10:
        try: held.append(np.empty(size, 'u1'))
        except MemoryError: size //= 2
    while free < leave and held: free += held.pop().nbytes
    return held
def draw():
    figure, axes = plt.subplots(2, 2, layout='constrained')
    axes[0, 0].plot(range(100), label='$x^2$'); axes[0, 0].legend(); axes[0, 0].set_title('Title')
    axes[0, 1].contourf(np.random.rand(20, 20)); axes[1, 1].imshow(np.random.rand(20, 20))
    axes[1, 0].tripcolor(np.random.rand(20), np.random.rand(20), np.arange(20.))
    for kind in 'png', 'svg': figure.savefig(io.BytesIO(), format=kind)";
    let try_it = "ends, leave = set(), 1000
while leave < 30_000_000:
    plt.close('all'); gc.collect()
    held = fill(leave)
    try: draw(); end = 'drawn'
    except MemoryError: end = 'no memory'
    # qhull has words of its own for it.
    except RuntimeError as error: end = 'no memory' if 'insufficient memory' in str(error) else str(error)
    held = None
    ends.add(end)
    leave = int(leave * 1.4)
plt.close('all')
sorted(ends)";
    attacked(&jar, "drawing without memory", || {
        let mut session = jar.session();
        session.run(IMPORTS).kept(Status::Ok);
        session.run(fill).kept(Status::Ok);
        session.run(try_it).gave(json!(["drawn", "no memory"]));
        // The result is drawn when the cell is done: its memory is the cell's.
        session.run("held = fill(50_000)\nplt.plot([1])").rolled_back(Status::OutOfMemory);
        session.run("plt.get_fignums()").gave(json!([]));
        let result = session.run("plt.plot([1])");
        result.kept(Status::Ok);
        assert!(result.result.expect("a figure").mime.contains_key("image/png"));
    });
    draws("plt.plot([1, 2])");
}

#[test]
fn formulas_too_deep() {
    for (open, close) in [("{", "}"), ("\\\\sqrt{", "}"), ("\\\\frac{1}{", "}"), ("x^{", "}")] {
        for depth in [100, 5000] {
            let code =
                format!("plt.title('$' + '{open}' * {depth} + 'x' + '{close}' * {depth} + '$')");
            let result = attack_with(&jar(), &code);
            result.ended(Status::Error, 1);
            let name = result.error.as_ref().map(|error| error.name.as_str());
            assert_eq!(name, Some("RecursionError"), "{code}");
        }
    }
    draws("plt.title('$' + '{' * 9 + 'x' + '}' * 9 + '$')");
}

#[test]
fn artists_that_never_come_to_an_end() {
    let jar = jar().timeout(Duration::from_millis(1500));
    let artist = |draw: &str| {
        format!(
            "class Endless(Artist):\n    def draw(self, renderer):\n        {draw}\n\
             plt.figure().add_artist(Endless()); x = 1"
        )
    };
    let stubborn = "while True:\n            try:\n                while True: pass\n            \
                    except BaseException: pass";
    for draw in ["while True: pass", stubborn] {
        attack_with(&jar, &artist(draw)).ended(Status::Timeout, -1);
        attacked(&jar, "an endless artist in a session", || {
            let mut session = jar.session();
            session.run(IMPORTS).kept(Status::Ok);
            session.run("y = 5").kept(Status::Ok);
            let result = session.run(&artist(draw));
            assert_eq!(result.status(), Status::Timeout, "{}", result.stderr);
            session.run("[y, plt.get_fignums()]").gave(json!([5, []]));
        });
    }
    for (draw, status) in [
        // Showing what is being drawn draws it again.
        ("plt.show()", Status::Error),
        ("raise KeyboardInterrupt", Status::Error),
        // It says so, but there was memory.
        ("raise MemoryError", Status::Error),
        ("plt.close('all')", Status::Ok),
        ("plt.figure().add_artist(Endless())", Status::Ok),
    ] {
        assert_eq!(attack_with(&jar, &artist(draw)).status(), status, "{draw}");
    }
    draws("plt.figure().add_artist(plt.Line2D([0, 1], [0, 1]))");
}

/// Where no line of the cell runs any more, its time-out is an interrupt all the same.
#[test]
fn figures_that_take_too_long() {
    let jar = jar().timeout(Duration::from_millis(1500));
    let slow = "keep = 2
for _ in range(15): plt.figure().add_subplot().scatter(*np.random.rand(2, 20_000), s=np.arange(20_000) % 7)
x = 1";
    let awaiting = format!("import asyncio\nawait asyncio.sleep(0)\n{slow}");
    for code in [slow, &awaiting] {
        attacked(&jar, "slow figures in a session", || {
            let mut session = jar.session();
            session.run(IMPORTS).kept(Status::Ok);
            session.run(code).kept(Status::Timeout);
            session.run("[keep, plt.get_fignums()]").gave(json!([2, []]));
        });
    }
    draws("plt.scatter([1], [2])");
}

#[test]
fn a_driver_without_its_figures() {
    let jar = jar();
    attack_with(&jar, "import belljar_guest.display as d\nd.extras = 5\n1 / 0")
        .raised("ZeroDivisionError", "division by zero");
    draws("plt.plot([1])");
}

#[test]
fn a_thousand_open_figures() {
    let code = "warnings.simplefilter('ignore')\nfor i in range(1000): plt.figure().text(0, 0, i)";
    let result = attack_with(&jar(), code);
    result.printed("");
    let text = result.result.expect("figures").text;
    assert_eq!(text.lines().count(), 21);
    assert!(text.ends_with("\n<980 more, not drawn>"), "{text}");
    draws("for i in range(200): plt.figure(); plt.close()\nplt.plot([1])");
}
