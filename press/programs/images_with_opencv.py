"""OpenCV alone: JPEG to an image by cv2.imdecode, red first, with one thread a caller."""

import images


def main():
    decode = images.reference().pixels_of
    images.run("decode", lambda: decode)


if __name__ == "__main__":
    main()
