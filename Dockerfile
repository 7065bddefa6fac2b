# Both images can be replaced, for a mirror or a hardened base.
ARG BUILD_IMAGE=golang:1.26
ARG BASE_IMAGE=gcr.io/distroless/static:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
# The modules first: they change less often than the code.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG TARGETOS
ARG TARGETARCH
# As in the Makefile.
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X github.com/platform-operator/platform-operator/pkg/version.Version=${VERSION}" \
    -o /platform-operator ./cmd/platform-operator

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="platform-operator" \
      org.opencontainers.image.source="https://github.com/platform-operator/platform-operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /platform-operator /platform-operator
# A number, so that runAsNonRoot can check it.
USER 65532:65532
ENTRYPOINT ["/platform-operator"]
