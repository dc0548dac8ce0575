"""Compare DataLoader workers that are threads with those that are processes: seconds of an epoch of images to decode,
by turns.

    python -m benchmarks.loader --rounds 5

A sample is a picture of uint8 that zlib unpacks, NumPy crops and mirrors, and Facula turns into float32: all of them leave the
interpreter lock while they work. Samples of 21 x 21 are mostly Python, and show what threads cannot help with.
"""

import argparse
import random
import statistics
import time
import zlib

import numpy as np

import facula
from facula.utils import data

SIZES = {"21 x 21": 24, "224 x 224": 256, "511 x 511": 584}


class Pictures(data.Dataset):
    def __init__(self, side: int, length: int) -> None:
        wave = np.add.outer(np.arange(side), np.arange(side))[..., None] * [1, 2, 3]
        noisy = (wave + np.random.randint(16, size=wave.shape)) % 256
        self.side, self.length, self.packed = side, length, zlib.compress(noisy.astype(np.uint8).tobytes(), 1)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int):
        picture = np.frombuffer(zlib.decompress(self.packed), np.uint8).reshape(self.side, self.side, 3)
        inside = self.side * 7 // 8
        top, left = random.randrange(self.side - inside), random.randrange(self.side - inside)
        picture = np.ascontiguousarray(picture[top : top + inside, left : left + inside][:, :: random.choice((1, -1))])
        return facula.from_numpy(picture).permute(2, 0, 1).float().div_(255), index


def epoch(dataset: Pictures, **options) -> float:
    loader = data.DataLoader(dataset, batch_size=16, persistent_workers=bool(options.get("num_workers")), **options)
    for _ in loader:  # starts the workers
        pass
    start = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batches", type=int, default=16)
    args = parser.parse_args()
    facula.set_num_threads(1)
    ways = {
        "none": {}, "processes": {"num_workers": args.workers},
        "threads": {"num_workers": args.workers, "multiprocessing_context": "threads"},
    }  # fmt: skip
    print(f"{args.workers} workers, {args.batches} batches of 16, samples a second, medians of {args.rounds} rounds by turns")
    print("| samples | no worker | processes | threads | threads / processes |\n|---|---|---|---|---|")
    for name, side in SIZES.items():
        dataset = Pictures(side, 16 * args.batches)
        times: dict = {way: [] for way in ways}
        for _ in range(args.rounds):
            for way, options in ways.items():
                times[way].append(epoch(dataset, **options))
        rates = {way: len(dataset) / statistics.median(values) for way, values in times.items()}
        cells = [name, *(f"{rate:,.0f}" for rate in rates.values()), f"{rates['threads'] / rates['processes']:.2f}"]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
