# make image-push sets the version of Go, so that the image's program is the
# one that make build makes, byte for byte. Any image with Go, make and bash
# will do; by digest, where yours are pinned.
ARG BUILD_IMAGE=golang:1.26

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
# The modules first: they change less often than the code.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG TARGETOS
ARG TARGETARCH
RUN GOOS=${TARGETOS} GOARCH=${TARGETARCH} make build

# No shell, no package, nothing to keep up to date: the program is static, and
# trusts the cluster's own certificates only.
FROM scratch
ARG VERSION=dev
ARG REVISION
LABEL org.opencontainers.image.title="platform-operator" \
      org.opencontainers.image.description="WebServer, ImmortalContainer, DemoApplication and Memcached for Kubernetes" \
      org.opencontainers.image.source="https://github.com/platform-operator/platform-operator" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY LICENSE THIRD_PARTY_LICENSES /licenses/
COPY --from=build /src/bin/platform-operator /platform-operator
# A number, so that runAsNonRoot can check it.
USER 65532:65532
ENTRYPOINT ["/platform-operator"]
