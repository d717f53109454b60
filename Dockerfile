# The command troupe as an image: one static binary, no shell, not root.
#   docker build -t troupe .
# It is a pod of the order-processing example by default; `troupe migrate up`,
# `troupe doctor` and the others are in it, too. A service of your own has the
# same Dockerfile with its own package in place of ./cmd/troupe.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/troupe ./cmd/troupe

FROM scratch
# TLS to PostgreSQL needs the certificates of the authorities.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/troupe /troupe
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/troupe"]
CMD ["orders"]
