"""Train with TensorFlow and Keras: the networks of keras.applications, which has no AlexNet; train_on_batch, which
compiles the step.
"""

import keras
import tensorflow as tf
from data import images, ratings
from keras import layers
from ncf import FACTORS, FILMS, LAYERS, USERS


def alexnet():
    stack = [keras.Input((224, 224, 3))]
    for width, size, stride, pads, pools in (
        (64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False), (256, 3, 1, 1, True),
    ):  # fmt: skip
        stack += [layers.ZeroPadding2D(pads), layers.Conv2D(width, size, stride, activation="relu")]
        stack += [layers.MaxPooling2D(3, 2)] if pools else []
    stack += [layers.Flatten()]
    for _ in range(2):
        stack += [layers.Dropout(0.5), layers.Dense(4096, activation="relu")]
    return keras.Sequential([*stack, layers.Dense(1000)])


def ncf():
    users, films = keras.Input((), dtype="int64"), keras.Input((), dtype="int64")
    product = layers.Embedding(USERS, FACTORS)(users) * layers.Embedding(FILMS, FACTORS)(films)
    half = LAYERS[0] // 2
    deep = layers.Concatenate()([layers.Embedding(USERS, half)(users), layers.Embedding(FILMS, half)(films)])
    for width in LAYERS[1:]:
        deep = layers.Dense(width, activation="relu")(deep)
    return keras.Model([users, films], layers.Dense(1)(layers.Concatenate()([product, deep])))


def stock(kind):
    return lambda: kind(weights=None, classifier_activation=None)


NETWORKS = {
    "alexnet": alexnet,
    "vgg19": stock(keras.applications.VGG19),
    "resnet50": stock(keras.applications.ResNet50),
    "mobilenet_v2": stock(keras.applications.MobileNetV2),
    "ncf": ncf,
}


def training(name, batch, threads):
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    model = NETWORKS[name]()
    if name == "ncf":
        users, films, target = map(tf.constant, ratings(batch))
        inputs, target = [users, films], target[:, None]
        model.compile(keras.optimizers.Adam(1e-3), keras.losses.BinaryCrossentropy(from_logits=True))
    else:
        inputs, target = map(tf.constant, images(batch, channels_last=True))
        optimizer = keras.optimizers.SGD(1e-3, momentum=0.9, weight_decay=1e-4)
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return lambda: float(model.train_on_batch(inputs, target))
