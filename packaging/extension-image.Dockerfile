# An image with nothing but the extension's files, which CloudNativePG mounts into PostgreSQL 18:
#
#   ./package --postgres 18 --out packages
#   docker build -t pg-anker:18 -f packaging/extension-image.Dockerfile packages/extension-image-18

FROM scratch
COPY . /
