package lakemend

import java.io.{BufferedOutputStream, DataInputStream, DataOutputStream, EOFException, IOException}
import java.net.{InetSocketAddress, Proxy, Socket}
import java.nio.charset.StandardCharsets.UTF_8
import java.security.{MessageDigest, SecureRandom}
import java.util.concurrent.ConcurrentLinkedDeque

import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

/** The brain's process as `lakemend.session.channel` serves it. Connections are kept: as many as ever called at one time. */
final class Channel(port: Int, secret: Array[Byte]) {
  private val idle = new ConcurrentLinkedDeque[Connection]
  @volatile private var closed = false

  /** Waits for the answer also when the thread is interrupted: a commit must not land unheard. */
  def call(op: String, payload: String): Array[Byte] = {
    val connection = Option(idle.pollFirst()).getOrElse(new Connection)
    val answer =
      try connection.call(op, payload)
      catch { case e: Throwable => connection.close(); throw e }
    if (closed) connection.close() else idle.addFirst(connection)
    answer
  }

  def close(): Unit = {
    closed = true
    Iterator.continually(idle.pollFirst()).takeWhile(_ != null).foreach(_.close())
  }

  // A plain socket: a channel of java.nio would be closed by an interrupt.
  private final class Connection {
    private val socket = new Socket(Proxy.NO_PROXY)
    private val (in, out) =
      try open()
      catch { case e: Throwable => close(); throw e }

    private def open(): (DataInputStream, DataOutputStream) = {
      socket.setTcpNoDelay(true)
      socket.connect(new InetSocketAddress("127.0.0.1", port), Channel.Patience)
      socket.setSoTimeout(Channel.Patience)
      val in = new DataInputStream(socket.getInputStream)
      val out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream, 64 * 1024))
      prove(in, out)
      socket.setSoTimeout(0)
      (in, out)
    }

    /** Both ends know the secret; neither says it. */
    private def prove(in: DataInputStream, out: DataOutputStream): Unit = {
      val theirs, proof = new Array[Byte](Channel.Proof)
      in.readFully(theirs)
      val ours = new Array[Byte](Channel.Proof)
      new SecureRandom().nextBytes(ours)
      out.write(ours)
      out.write(digest("connector", theirs, ours))
      out.flush()
      in.readFully(proof)
      if (!MessageDigest.isEqual(proof, digest("brain", theirs, ours)))
        throw new IOException(s"who listens on port $port is not the Python process that started this channel")
    }

    private def digest(side: String, brains: Array[Byte], connectors: Array[Byte]): Array[Byte] = {
      val mac = Mac.getInstance("HmacSHA256")
      mac.init(new SecretKeySpec(secret, "HmacSHA256"))
      mac.update(side.getBytes(UTF_8))
      mac.update(brains)
      mac.doFinal(connectors)
    }

    def call(op: String, payload: String): Array[Byte] = {
      write(op)
      write(payload)
      out.flush()
      val length = try in.readInt() catch { case _: EOFException => throw new IOException("it ended before it answered") }
      val answer = new Array[Byte](length)
      in.readFully(answer)
      answer
    }

    private def write(text: String): Unit = {
      val bytes = text.getBytes(UTF_8)
      out.writeInt(bytes.length)
      out.write(bytes)
    }

    def close(): Unit = socket.close()
  }
}

private object Channel {
  val Proof = 32
  val Patience = 30000
}
