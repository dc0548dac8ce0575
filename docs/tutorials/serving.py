# %% [markdown]
# # Export and serving
#
# A trained model becomes a file that runs without its Python source: by a command, behind HTTP, or in ONNX runtimes.
#
# Who uses a model should not need the program that trained it. `export` runs the model once and records the ops, and the
# file has the ops and the weights. It is data: reading it runs nothing but these ops.

# %%
import gzip
import json
import shutil
import subprocess
import sysconfig
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import numpy as np
from matplotlib import pyplot as plt

import facula as torch
from facula import nn
from facula.nn import functional as F

torch.manual_seed(0)
with gzip.open(Path(__file__).parents[2] / "examples" / "data" / "digits.csv.gz", "rt") as file:
    table = np.loadtxt(file, delimiter=",", dtype=np.float32)
images, digits = torch.from_numpy(table[:, :64]).view(-1, 1, 8, 8) / 16, torch.from_numpy(table[:, 64]).long()


class Reader(nn.Module):
    """Scores of the ten digits, and the chance of the best one."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 16, 10)
        )

    def forward(self, images):
        scores = self.layers(images)
        return scores, scores.softmax(1).amax(1)


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(200):
    batch = torch.randint(1500, (64,))
    loss = F.cross_entropy(model(images[batch])[0], digits[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
print(f"loss {loss.item():.3f}")

# %% [markdown]
# ## The file
#
# The number of images may vary, so the first dimension gets a name. Without it, the program would take 8 images only.

# %%
example = images[:8].clone()  # a slice would bring all images into the file
program = torch.export.export(model, (example,), dynamic_shapes={"images": {0: torch.export.Dim("count")}})
torch.export.save(program, "digits.pt2")
print(f"{Path('digits.pt2').stat().st_size / 1024:.0f} KiB")

# %% [markdown]
# ## A command
#
# `facula-run` comes with the package. It runs such a file on arrays of NumPy, and there is no Python in its process.

# %%
places = (Path(torch._C.__file__).resolve().parent, Path(sysconfig.get_path("scripts")))
command = shutil.which("facula-run") or next(str(p / "facula-run") for p in places if (p / "facula-run").exists())
print(subprocess.run([command, "digits.pt2", "--list"], capture_output=True, text=True, check=True).stdout)
np.save("images.npy", images[1500:1506].numpy())
subprocess.run([command, "digits.pt2", "--input", "images.npy", "--output", "answers.npz"], check=True)
with np.load("answers.npz") as answers:
    for name in answers:
        print(name, answers[name].shape)

# %% [markdown]
# ## HTTP
#
# The standard library's server is enough to show the principle. The program is loaded once; requests arrive in threads,
# and all threads may call it, because running it changes nothing. `inference_mode` leaves out what autograd would need.

# %%
loaded = torch.export.load("digits.pt2").module()


class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        sent = np.frombuffer(self.rfile.read(int(self.headers["Content-Length"])), np.float32)
        with torch.inference_mode():
            scores, sure = loaded(torch.from_numpy(sent.copy()).view(-1, 1, 8, 8))
        answer = json.dumps({"digits": scores.argmax(1).tolist(), "sure": sure.tolist()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Do not write a line for each request."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
threading.Thread(target=server.serve_forever, daemon=True).start()


def ask(images):
    with urlopen(f"http://127.0.0.1:{server.server_port}", data=images.numpy().tobytes()) as answer:
        return json.load(answer)


times = {}
for count in (1, 8, 64):
    begun = time.perf_counter()
    for _ in range(20):
        answer = ask(images[1500 : 1500 + count])
    times[count] = (time.perf_counter() - begun) / 20
    print(f"{count:2d} images: {1e3 * times[count]:.1f} ms a request, {1e6 * times[count] / count:.0f} us an image")

# %% [markdown]
# Most of a small request is HTTP; a batch shares it. A service with many clients collects their images for some
# milliseconds and runs them together.

# %%
answer = ask(images[1500:1516])
server.shutdown()
figure, axes = plt.subplots(2, 8, figsize=(8, 2.6))
for cell, image, digit, sure in zip(axes.flat, images[1500:1516], answer["digits"], answer["sure"]):
    cell.imshow(image[0], cmap="gray_r")
    cell.set_title(f"{digit}: {100 * sure:.0f} %", fontsize=9)
    cell.axis("off")

# %% [markdown]
# ## ONNX
#
# Runtimes of other makers read ONNX. Facula writes the file without the package `onnx`.

# %%
onnx = torch.onnx.export(program, (example,), "digits.onnx", input_names=["images"], output_names=["scores", "sure"])
onnx, f"{Path('digits.onnx').stat().st_size / 1024:.0f} KiB"

# %% [markdown]
# [Exported programs](../exported_programs.md) shows the same file in C++, [ONNX](../onnx.md) what has a translation.
