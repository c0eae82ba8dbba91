(** * Cocoercivity

    If the curve has the Lipschitz constant [L], then the squared distance of two
    shares is at most [L] times the inner product of the differences of shares and
    scores ([shares_cocoercive]); so the operator has the Lipschitz constant [L] in the
    Euclidean norm ([shares_lipschitz]). *)

From Coq Require Import Reals Lra Lia Arith.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Selection.
Open Scope R_scope.

Definition lipschitz L (f : R -> R) := forall s t, Rabs (f s - f t) <= L * Rabs (s - t).

(** Term by term it holds for the arguments; the difference of the thresholds is a
    constant, and drops out because both shares sum to [k]. *)
Theorem shares_cocoercive f n x y k p q L : curve f -> lipschitz L f ->
  shares f n x k p -> shares f n y k q ->
  ∑_(i < n) (p i - q i) ^ 2 <= L * ∑_(i < n) (p i - q i) * (x i - y i).
Proof.
  intros Hf HL Hp Hq.
  assert (Ep := shares_sum f n x k p Hp); assert (Eq := shares_sum f n y k q Hq).
  destruct Hp as [l [_ Hp]], Hq as [m [_ Hq]].
  assert (E : ∑_(i < n) (p i - q i) * (x i - y i)
    = ∑_(i < n) (p i - q i) * ((x i - l) - (y i - m))).
  { rewrite (sum_ext n (fun i => (p i - q i) * ((x i - l) - (y i - m)))
      (fun i => (p i - q i) * (x i - y i) - (l - m) * (p i - q i))) by (intros; ring).
    rewrite sum_minus, sum_scal, sum_minus, Ep, Eq; ring. }
  rewrite E, <- sum_scal; apply sum_le; intros i Hi; rewrite Hp, Hq by exact Hi.
  generalize (x i - l) (y i - m); intros s t; specialize (HL s t).
  destruct (Rle_or_lt t s) as [H|H].
  - pose proof (rising f Hf t s H); rewrite !Rabs_pos_eq in HL by lra; nra.
  - pose proof (rising f Hf s t ltac:(lra)); rewrite !Rabs_left1 in HL by lra; nra.
Qed.

Theorem shares_lipschitz f n x y k p q L : curve f -> lipschitz L f ->
  shares f n x k p -> shares f n y k q ->
  ∑_(i < n) (p i - q i) ^ 2 <= L ^ 2 * ∑_(i < n) (x i - y i) ^ 2.
Proof.
  intros Hf HL Hp Hq.
  pose proof (shares_cocoercive f n x y k p q L Hf HL Hp Hq) as H.
  pose proof (cauchy_schwarz n (fun i => p i - q i) (fun i => x i - y i)) as HC.
  cbv beta in HC.
  set (D := ∑_(i < n) (p i - q i) ^ 2) in *; set (X := ∑_(i < n) (x i - y i) ^ 2) in *.
  set (s := ∑_(i < n) (p i - q i) * (x i - y i)) in *.
  assert (HD : 0 <= D) by (apply sum_nonneg; intros; apply pow2_ge_0).
  assert (HX : 0 <= X) by (apply sum_nonneg; intros; apply pow2_ge_0).
  destruct HD as [HD|HD].
  - apply Rmult_le_reg_l with D; [exact HD|].
    apply Rle_trans with ((L * s) ^ 2); [nra|].
    replace ((L * s) ^ 2) with (L ^ 2 * s ^ 2) by ring.
    replace (D * (L ^ 2 * X)) with (L ^ 2 * (D * X)) by ring.
    apply Rmult_le_compat_l; [apply pow2_ge_0|exact HC].
  - rewrite <- HD; apply Rmult_le_pos; [apply pow2_ge_0|exact HX].
Qed.
